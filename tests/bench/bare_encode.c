#include "tests/bench/bare_encode.h"

#include <lz4frame.h>
#include <zstd.h>

#include "tests/bench/measure.h"

enum { PIECE = 65536, LONGEST_VALUES = N_VALUES * 10 };

static enum encode_codec codec;
static LZ4F_cctx *lz4;
static ZSTD_CCtx *zstd;
static buffer piece, encoded;

/* ---- compressing ---- */

static const LZ4F_preferences_t PREFERENCES = {.frameInfo = {.blockSizeID = LZ4F_max64KB}};

static size_t lz4_checked(size_t result) {
  if (LZ4F_isError(result)) DIE("LZ4: %s", LZ4F_getErrorName(result));
  return result;
}

static void compress_lz4(void) {
  size_t bound = LZ4F_compressBound(piece.len, &PREFERENCES);
  uint8_t *to = buffer_room(&encoded, bound);
  encoded.len += lz4_checked(LZ4F_compressUpdate(lz4, to, bound, piece.p, piece.len, NULL));
}

static void compress_zstd(bool last) {
  ZSTD_inBuffer in = {piece.p, piece.len, 0};
  size_t left = 1;
  while (in.pos < in.size || (last && left > 0)) {
    enum { STEP = 1 << 17 };
    ZSTD_outBuffer out = {buffer_room(&encoded, STEP), STEP, 0};
    left = ZSTD_compressStream2(zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left)) DIE("zstd: %s", ZSTD_getErrorName(left));
    encoded.len += out.pos;
  }
}

static void flush(bool last) {
  if (codec == ENCODE_LZ4)
    compress_lz4();
  else
    compress_zstd(last);
  piece.len = 0;
}

void encode_begin(enum encode_codec as) {
  codec = as;
  piece.len = encoded.len = 0;
  if (codec == ENCODE_ZSTD) {
    if (!(zstd = ZSTD_createCCtx())) DIE("out of memory");
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, 1);
    return;
  }
  lz4_checked(LZ4F_createCompressionContext(&lz4, LZ4F_VERSION));
  uint8_t *header = buffer_room(&encoded, LZ4F_HEADER_SIZE_MAX);
  encoded.len += lz4_checked(LZ4F_compressBegin(lz4, header, LZ4F_HEADER_SIZE_MAX, &PREFERENCES));
}

text encode_end(void) {
  flush(true);
  if (codec == ENCODE_ZSTD) {
    ZSTD_freeCCtx(zstd);
  } else {
    size_t bound = LZ4F_compressBound(0, &PREFERENCES);
    encoded.len += lz4_checked(LZ4F_compressEnd(lz4, buffer_room(&encoded, bound), bound, NULL));
    LZ4F_freeCompressionContext(lz4);
  }
  buffer_deinit(&piece);
  return (text){(const char *)encoded.p, encoded.len};
}

void encode_release(void) { buffer_deinit(&encoded); }

/* ---- pprof ---- */

void encode_bytes(const uint8_t *bytes, size_t len) {
  for (size_t at = 0; at < len;) {
    size_t n = len - at < PIECE ? len - at : PIECE;
    buffer_append(&piece, bytes + at, n);
    flush(false);
    at += n;
  }
}

static const uint8_t *span_in(const buffer *bytes, const buffer *spans, uint32_t i, size_t *len) {
  span s = ((const span *)(const void *)spans->p)[i];
  *len = s.len;
  return bytes->p + s.at;
}

/* `more` holds one label more, ready to be written. */
static void encode_sample(const bare_rows *rows, bare_key key, text values, text more) {
  size_t n_stack, n_labels;
  const uint8_t *stack = span_in(rows->stack_bytes, rows->stack_spans, key.stack, &n_stack);
  const uint8_t *labels = span_in(rows->label_bytes, rows->label_spans, key.label_set, &n_labels);
  uint8_t stack_size[10];
  size_t n_stack_size = (size_t)(put_varint(stack_size, n_stack) - stack_size);
  size_t n = 1 + n_stack_size + n_stack + 2 + values.len + n_labels + more.len;
  uint8_t *begin = buffer_room(&piece, n + 16), *p = begin;
  *p++ = 2 << 3 | 2;
  p = put_varint(p, n);
  *p++ = 1 << 3 | 2;
  memcpy(p, stack_size, n_stack_size);
  p += n_stack_size;
  memcpy(p, stack, n_stack);
  p += n_stack;
  *p++ = 2 << 3 | 2;
  *p++ = (uint8_t)values.len;
  memcpy(p, values.ptr, values.len);
  p += values.len;
  memcpy(p, labels, n_labels);
  p += n_labels;
  memcpy(p, more.ptr, more.len);
  piece.len += (size_t)(p - begin) + more.len;
  if (piece.len >= PIECE) flush(false);
}

void encode_timeline(const bare_rows *rows, const buffer *timeline, uint32_t time_key) {
  for (size_t at = 0; at < timeline->len;) {
    bare_timed t;
    memcpy(&t, timeline->p + at, sizeof t);
    at += sizeof t;
    const uint8_t *values = timeline->p + at, *end = values;
    for (int i = 0; i < N_VALUES; i++)
      while (*end++ & 128) {
      }
    at += (size_t)(end - values);
    uint8_t label[32], *label_end = put_field(label + 2, 1, time_key);
    label_end = put_field(label_end, 3, (uint64_t)t.timestamp);
    label[0] = 3 << 3 | 2;
    label[1] = (uint8_t)(label_end - label - 2);
    encode_sample(rows, t.key, (text){(const char *)values, (size_t)(end - values)},
                  (text){(const char *)label, (size_t)(label_end - label)});
  }
}

void encode_aggregated(const bare_rows *rows, const buffer *keys, const buffer *values) {
  const bare_key *key = (const bare_key *)(const void *)keys->p;
  const int64_t *value = (const int64_t *)(const void *)values->p;
  for (size_t i = 0; i < keys->len / sizeof *key; i++) {
    uint8_t bytes[LONGEST_VALUES], *end = bytes;
    for (int k = 0; k < N_VALUES; k++) end = put_varint(end, (uint64_t)value[i * N_VALUES + (size_t)k]);
    encode_sample(rows, key[i], (text){(const char *)bytes, (size_t)(end - bytes)}, (text){"", 0});
  }
}
