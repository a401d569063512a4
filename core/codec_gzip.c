/* gzip, by zlib: what every pprof tool opens. */
#include "core/codec.h"

#include "core/alloc.h"

#include <string.h>
#include <zlib.h>

/* Profiles are written while a program runs: level 1 costs a third of level 6 for a few percent of size. */
enum { LEVEL = 1, GZIP_WINDOW = 15 + 16, MEMORY_LEVEL = 8 };

enum { STEP = 16 << 10 };

static voidpf allocate(voidpf opaque, uInt items, uInt size) {
  (void)opaque;
  return nf_alloc((size_t)items * size);
}

static void release(voidpf opaque, voidpf block) {
  (void)opaque;
  nf_free(block);
}

static void drop(void *state) {
  deflateEnd(state);
  nf_free(state);
}

static void *begin(nf_codec *codec) {
  (void)codec;
  z_stream *z = nf_alloc_zeroed(sizeof *z);
  if (!z) return NULL;
  z->zalloc = allocate;
  z->zfree = release;
  if (deflateInit2(z, LEVEL, Z_DEFLATED, GZIP_WINDOW, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK) return z;
  nf_free(z);
  return NULL;
}

static bool run(nf_codec *codec, const uint8_t *bytes, size_t len, int flush) {
  z_stream *z = codec->state;
  z->next_in = (Bytef *)(uintptr_t)bytes;
  z->avail_in = (uInt)len;
  for (;;) {
    z->next_out = nf_codec_room(codec, STEP);
    if (!z->next_out) return false;
    z->avail_out = STEP;
    int result = deflate(z, flush);
    codec->output.len += STEP - z->avail_out;
    if (flush == Z_FINISH ? result == Z_STREAM_END : z->avail_out != 0) return true;
  }
}

static bool feed(nf_codec *codec, uint8_t *bytes, size_t len) {
  return run(codec, bytes, len, Z_NO_FLUSH);
}

static bool end(nf_codec *codec) { return run(codec, NULL, 0, Z_FINISH); }

/* zlib's own bound, for a stream that is not set up as its default, and the room of the last step. */
static size_t bound(size_t len) { return len + (len >> 5) + (len >> 7) + (len >> 11) + 64 + STEP; }

const nf_codec_ops nf_codec_gzip = {begin, feed, end, drop, bound};
