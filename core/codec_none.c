/* The bytes as they are. */
#include "core/codec.h"

#include <string.h>

static void *begin(nf_codec *codec) { return codec; /* no state, but not NULL either */ }

static bool feed(nf_codec *codec, uint8_t *bytes, size_t len) {
  uint8_t *room = nf_codec_room(codec, len);
  if (!room) return false;
  memcpy(room, bytes, len);
  codec->output.len += len;
  return true;
}

static bool end(nf_codec *codec) { return codec != NULL; }

static void drop(void *state) { (void)state; }

static size_t bound(size_t len) { return len + 1; }

const nf_codec_ops nf_codec_none = {begin, feed, end, drop, bound};
