/* One LZ4 frame of linked 64 KiB blocks: what the v6 ABI promises. */
#include "core/codec.h"

#include <lz4frame.h>

static const LZ4F_preferences_t preferences = {
    .frameInfo = {.blockSizeID = LZ4F_max64KB, .blockMode = LZ4F_blockLinked}};

/* What is written stays where it is (see nf_codec_write), so LZ4 need not copy it. */
static const LZ4F_compressOptions_t options = {.stableSrc = 1};

static void drop(void *state) { LZ4F_freeCompressionContext(state); }

static bool append(nf_codec *codec, size_t written) {
  if (LZ4F_isError(written)) return false;
  codec->output.len += written;
  return true;
}

static void *begin(nf_codec *codec) {
  LZ4F_cctx *context;
  if (LZ4F_isError(LZ4F_createCompressionContext(&context, LZ4F_VERSION))) return NULL;
  uint8_t *room = nf_codec_room(codec, LZ4F_HEADER_SIZE_MAX);
  if (room && append(codec, LZ4F_compressBegin(context, room, LZ4F_HEADER_SIZE_MAX, &preferences)))
    return context;
  drop(context);
  return NULL;
}

static bool feed(nf_codec *codec, const uint8_t *bytes, size_t len) {
  size_t most = LZ4F_compressBound(len, &preferences);
  uint8_t *room = nf_codec_room(codec, most);
  return room && append(codec, LZ4F_compressUpdate(codec->state, room, most, bytes, len, &options));
}

static bool end(nf_codec *codec) {
  size_t most = LZ4F_compressBound(0, &preferences);
  uint8_t *room = nf_codec_room(codec, most);
  return room && append(codec, LZ4F_compressEnd(codec->state, room, most, NULL));
}

/* Each write wants room for the worst case of what it gets and of what is still buffered. */
static size_t bound(size_t len) {
  return LZ4F_HEADER_SIZE_MAX + LZ4F_compressBound(len, &preferences) +
         2 * LZ4F_compressBound(NF_CODEC_PIECE, &preferences);
}

const nf_codec_ops nf_codec_lz4 = {begin, feed, end, drop, bound};
