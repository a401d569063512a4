/* First stage of the reader: compressed bytes to plain ones, within a bound. */
#include <lz4frame.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "core/alloc.h"
#include "core/reader.h"

typedef struct source {
  const uint8_t *bytes;
  size_t len;
  size_t at;
} source;

/* Grows as bytes come, whatever size a header promises. May hold one byte more than allowed: that one tells
 * that the limit was passed. */
typedef struct sink {
  uint8_t *bytes;
  size_t len;
  size_t capacity;
  size_t limit;
} sink;

enum { SINK_FIRST_CAPACITY = 64 * 1024 };

static bool too_large(size_t limit, nf_error *error) {
  return nf_error_set(error, "the profile is larger than %zu bytes when uncompressed, which is the limit",
                      limit);
}

/* Makes sure that there is room for at least one more byte. */
static bool sink_room(sink *out, nf_error *error) {
  if (out->len > out->limit) return too_large(out->limit, error);
  if (out->len < out->capacity) return true;
  size_t most = out->limit < SIZE_MAX ? out->limit + 1 : SIZE_MAX;
  size_t capacity = out->capacity ? out->capacity : SINK_FIRST_CAPACITY / 2;
  capacity = capacity > most / 2 ? most : capacity * 2;
  uint8_t *bytes = nf_realloc(out->bytes, capacity);
  if (!bytes) return nf_error_set(error, "out of memory at %zu uncompressed bytes", out->len);
  out->bytes = bytes;
  out->capacity = capacity;
  return true;
}

static bool truncated(const char *format, const source *in, nf_error *error) {
  return nf_error_set(error, "truncated %s data: the end is missing after %zu bytes", format, in->len);
}

static bool damaged(const char *format, const source *in, const char *why, nf_error *error) {
  return nf_error_set(error, "damaged %s data near byte %zu: %s", format, in->at, why);
}

static bool starts_gzip(const uint8_t *bytes, size_t len) {
  return len >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

static uint32_t magic_number(const uint8_t *bytes, size_t len) {
  return len < 4 ? 0
                 : (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                       (uint32_t)bytes[3] << 24;
}

static const uint32_t LZ4_MAGIC = 0x184D2204;
static const uint32_t ZSTD_MAGIC = 0xFD2FB528;

/* Frames that LZ4 and zstd tools must step over; both formats share them. */
static bool is_skippable(uint32_t magic) { return (magic & 0xFFFFFFF0u) == 0x184D2A50u; }

static bool is_lz4(uint32_t magic) { return magic == LZ4_MAGIC; }
static bool is_zstd(uint32_t magic) { return magic == ZSTD_MAGIC; }

/* Between two frames: what follows must be another frame of the same format. */
static bool next_frame(const char *format, bool (*is_format)(uint32_t), const source *in, nf_error *error) {
  uint32_t magic = magic_number(in->bytes + in->at, in->len - in->at);
  if (is_format(magic) || is_skippable(magic)) return true;
  return nf_error_set(error, "%zu bytes that are no %s frame follow the %s data", in->len - in->at, format,
                      format);
}

static bool read_gzip(source *in, sink *out, nf_error *error) {
  z_stream stream;
  memset(&stream, 0, sizeof stream);
  if (inflateInit2(&stream, 15 + 16) != Z_OK)
    return nf_error_set(error, "out of memory for the gzip decoder");
  bool ok = false, in_member = true;
  for (;;) {
    if (!sink_room(out, error)) break;
    const size_t most = 1u << 30; /* zlib counts in unsigned int */
    size_t given = in->len - in->at < most ? in->len - in->at : most;
    size_t room = out->capacity - out->len < most ? out->capacity - out->len : most;
    stream.next_in = (Bytef *)(uintptr_t)(in->bytes + in->at);
    stream.avail_in = (uInt)given;
    stream.next_out = out->bytes + out->len;
    stream.avail_out = (uInt)room;
    int status = inflate(&stream, Z_NO_FLUSH);
    in->at += given - stream.avail_in;
    out->len += room - stream.avail_out;
    if (status == Z_STREAM_END) {
      in_member = false;
      if (in->at == in->len) break;
      if (!starts_gzip(in->bytes + in->at, in->len - in->at)) {
        nf_error_set(error, "%zu bytes that are no gzip member follow the gzip data", in->len - in->at);
        goto out;
      }
      in_member = inflateReset(&stream) == Z_OK;
      if (in_member) continue;
      nf_error_set(error, "the gzip decoder cannot start again");
      goto out;
    }
    if (status == Z_MEM_ERROR) {
      nf_error_set(error, "out of memory in the gzip decoder");
      goto out;
    }
    if (status == Z_BUF_ERROR || (status == Z_OK && in->at == in->len && stream.avail_out)) {
      truncated("gzip", in, error);
      goto out;
    }
    if (status != Z_OK) {
      damaged("gzip", in, stream.msg ? stream.msg : "not a gzip stream", error);
      goto out;
    }
  }
  ok = !in_member;
out:
  inflateEnd(&stream);
  return ok;
}

static bool read_lz4(source *in, sink *out, nf_error *error) {
  LZ4F_dctx *decoder = NULL;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&decoder, LZ4F_VERSION)))
    return nf_error_set(error, "out of memory for the LZ4 decoder");
  bool ok = false;
  while (sink_room(out, error)) {
    size_t given = in->len - in->at, room = out->capacity - out->len;
    size_t hint = LZ4F_decompress(decoder, out->bytes + out->len, &room, in->bytes + in->at, &given, NULL);
    if (LZ4F_isError(hint)) {
      damaged("LZ4", in, LZ4F_getErrorName(hint), error);
      break;
    }
    in->at += given;
    out->len += room;
    if (hint == 0) {
      if (in->at == in->len) {
        ok = true;
        break;
      }
      if (!next_frame("LZ4", is_lz4, in, error)) break;
    } else if (in->at == in->len && out->len < out->capacity) {
      truncated("LZ4", in, error);
      break;
    } else if (given == 0 && room == 0) {
      damaged("LZ4", in, "the decoder makes no progress", error);
      break;
    }
  }
  LZ4F_freeDecompressionContext(decoder);
  return ok;
}

static bool read_zstd(source *in, sink *out, nf_error *error) {
  ZSTD_DStream *decoder = ZSTD_createDStream();
  if (!decoder) return nf_error_set(error, "out of memory for the zstd decoder");
  bool ok = false;
  while (sink_room(out, error)) {
    ZSTD_inBuffer input = {in->bytes, in->len, in->at};
    ZSTD_outBuffer output = {out->bytes, out->capacity, out->len};
    size_t hint = ZSTD_decompressStream(decoder, &output, &input);
    bool progress = input.pos > in->at || output.pos > out->len;
    if (ZSTD_isError(hint)) {
      damaged("zstd", in, ZSTD_getErrorName(hint), error);
      break;
    }
    in->at = input.pos;
    out->len = output.pos;
    if (hint == 0) {
      if (in->at == in->len) {
        ok = true;
        break;
      }
      if (!next_frame("zstd", is_zstd, in, error)) break;
    } else if (in->at == in->len && out->len < out->capacity) {
      truncated("zstd", in, error);
      break;
    } else if (!progress) {
      damaged("zstd", in, "the decoder makes no progress", error);
      break;
    }
  }
  ZSTD_freeDStream(decoder);
  return ok;
}

static bool read_plain(source *in, sink *out, nf_error *error) {
  if (in->len > out->limit) return too_large(out->limit, error);
  out->bytes = nf_alloc(in->len);
  if (!out->bytes) return nf_error_set(error, "out of memory for %zu bytes", in->len);
  memcpy(out->bytes, in->bytes, in->len);
  out->len = out->capacity = in->len;
  return true;
}

/* The magic number of the first frame that holds data. */
static uint32_t first_magic(const uint8_t *bytes, size_t len) {
  for (;;) {
    uint32_t magic = magic_number(bytes, len);
    if (!is_skippable(magic) || len < 8) return magic;
    size_t frame = 8 + (size_t)magic_number(bytes + 4, len - 4);
    if (frame >= len) return magic;
    bytes += frame;
    len -= frame;
  }
}

bool nf_reader_decompress(const uint8_t *data, size_t len, size_t max_uncompressed, uint8_t **out,
                          size_t *out_len, nf_error *error) {
  *out = NULL;
  *out_len = 0;
  if (len == 0) return nf_error_set(error, "the profile is empty (0 bytes)");
  source in = {data, len, 0};
  sink plain = {NULL, 0, 0, max_uncompressed};
  uint32_t magic = first_magic(data, len);
  bool ok = starts_gzip(data, len)                  ? read_gzip(&in, &plain, error)
            : is_lz4(magic)                         ? read_lz4(&in, &plain, error)
            : is_zstd(magic) || is_skippable(magic) ? read_zstd(&in, &plain, error)
                                                    : read_plain(&in, &plain, error);
  if (!ok) {
    nf_free(plain.bytes);
    return false;
  }
  if (plain.len > plain.limit) { /* the last bytes of all brought it over the limit */
    nf_free(plain.bytes);
    return too_large(plain.limit, error);
  }
  *out = plain.bytes;
  *out_len = plain.len;
  return true;
}
