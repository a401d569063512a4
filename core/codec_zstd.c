/* One zstd frame. */
#include "core/codec.h"

#include <zstd.h>

/* A window of 512 KiB: half of it costs 5 to 10 % of the size. A table of 2^15 places, twice the level's own:
 * 2 to 7 % less for 64 KiB, and no slower. */
enum { LEVEL = 1, WINDOW_LOG = 19, HASH_LOG = 15 };

enum { STEP = 16 << 10 };

static void drop(void *state) { ZSTD_freeCCtx(state); }

static bool run(nf_codec *codec, ZSTD_CCtx *context, const uint8_t *bytes, size_t len,
                ZSTD_EndDirective how) {
  ZSTD_inBuffer in = {bytes, len, 0};
  for (;;) {
    uint8_t *room = nf_codec_room(codec, STEP);
    if (!room) return false;
    ZSTD_outBuffer out = {room, STEP, 0};
    size_t left = ZSTD_compressStream2(context, &out, &in, how);
    if (ZSTD_isError(left)) return false;
    codec->output.len += out.pos;
    if (how == ZSTD_e_end ? left == 0 : in.pos == in.size) return true;
  }
}

static void *begin(nf_codec *codec) {
  ZSTD_CCtx *context = ZSTD_createCCtx();
  if (!context) return NULL;
  /* Writing nothing makes it take the memory that it will need. */
  if (!ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL)) &&
      !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, WINDOW_LOG)) &&
      !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_hashLog, HASH_LOG)) &&
      run(codec, context, (const uint8_t *)"", 0, ZSTD_e_continue))
    return context;
  drop(context);
  return NULL;
}

static bool feed(nf_codec *codec, uint8_t *bytes, size_t len) {
  return run(codec, codec->state, bytes, len, ZSTD_e_continue);
}

static bool end(nf_codec *codec) { return run(codec, codec->state, NULL, 0, ZSTD_e_end); }

static size_t bound(size_t len) { return ZSTD_compressBound(len) + STEP; }

const nf_codec_ops nf_codec_zstd = {begin, feed, end, drop, bound};
