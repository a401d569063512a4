/* What lies between the encoder and the codec: protobuf is written here, and goes on in pieces of
 * NF_CODEC_PIECE bytes. */
#ifndef NF_CORE_WINDOW_H
#define NF_CORE_WINDOW_H

#include "core/codec.h"
#include "core/varint.h"

#include <string.h>

/* Room behind a piece, in which a record may end. */
#define NF_WINDOW_RECORD_MOST ((size_t)16 << 10)
#define NF_WINDOW_SIZE (NF_CODEC_HISTORY + NF_CODEC_PIECE + NF_WINDOW_RECORD_MOST)
#define NF_WINDOW_SLACK 64 /* what a field may write beyond its end */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_window {
  uint8_t *memory;
  size_t size;    /* of memory: NF_WINDOW_SIZE, or all there will be if that is less than a piece */
  uint8_t *bytes; /* in it: the piece that is being written */
  size_t used;    /* of it; below NF_CODEC_PIECE between records */
  nf_codec *codec;
  nf_error *error;
  bool failed; /* the codec could not go on: what is written is dropped */
} nf_window;

/* `most` is at least what will be written in all. */
bool nf_window_init(nf_window *window, nf_codec *codec, uint64_t most, nf_error *error);
void nf_window_deinit(nf_window *window);

/* Passes on a piece, or what there is. */
void nf_window_flush(nf_window *window);

/* Where to write a record of at most NF_WINDOW_RECORD_MOST bytes, and to say where it ended. */
static inline uint8_t *nf_window_open(nf_window *window) { return window->bytes + window->used; }

static inline void nf_window_close(nf_window *window, const uint8_t *end) {
  window->used = (size_t)(end - window->bytes);
  if (window->used >= NF_CODEC_PIECE) nf_window_flush(window);
}

/* Bytes of any number. */
void nf_window_put(nf_window *window, const void *bytes, size_t len);

/* ---- protobuf ---- */

#define NF_TAG_VARINT(field) ((uint8_t)((field) << 3))
#define NF_TAG_BYTES(field) ((uint8_t)((field) << 3 | 2))

/* A scalar field below 16; nothing for 0, which is how a message says 0. */
static inline uint8_t *nf_put_field(uint8_t *out, unsigned field, uint64_t value) {
  if (!value) return out;
  *out++ = NF_TAG_VARINT(field);
  return nf_varint_put(out, value);
}

static inline uint8_t *nf_put_field32(uint8_t *out, unsigned field, uint32_t value) {
  if (!value) return out;
  *out++ = NF_TAG_VARINT(field);
  return nf_varint_put32(out, value);
}

#ifdef __cplusplus
}
#endif

#endif
