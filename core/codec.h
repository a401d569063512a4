/* Compression, as a stream: the encoder writes pieces, the codec appends to one growing output.
 *
 * Whatever a codec needs beside its output it takes when it begins. If the output was reserved in full,
 * nothing after the beginning can fail; so what was written may be thrown away at once. */
#ifndef NF_CORE_CODEC_H
#define NF_CORE_CODEC_H

#include "core/error.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nf_codec_kind {
  NF_CODEC_LZ4_FRAME,
  NF_CODEC_GZIP,
  NF_CODEC_ZSTD,
  NF_CODEC_NONE,
  NF_CODEC_COUNT,
} nf_codec_kind;

/* Bytes from nf_pages_alloc: nf_pages_free(data, capacity). */
typedef struct nf_output {
  uint8_t *data;
  size_t len, capacity;
} nf_output;

typedef struct nf_codec nf_codec;

/* What a kind of codec can do. Each is a file of its own. */
typedef struct nf_codec_ops {
  /* Makes the state, and writes what stands at the beginning. NULL when out of memory. */
  void *(*begin)(nf_codec *codec);
  /* These may fail only if the output cannot grow. */
  bool (*write)(nf_codec *codec, uint8_t *bytes, size_t len);
  bool (*end)(nf_codec *codec);
  void (*drop)(void *state);
  /* More output than `len` bytes in pieces of NF_CODEC_PIECE can ever become, with the room that writing
   * wants. */
  size_t (*bound)(size_t len);
} nf_codec_ops;

extern const nf_codec_ops nf_codec_lz4, nf_codec_gzip, nf_codec_zstd, nf_codec_none;

/* What is written at once, but for the last piece, which may be smaller; and what a codec may use of the
 * memory before it. */
#define NF_CODEC_PIECE ((size_t)64 << 10)
#define NF_CODEC_HISTORY NF_CODEC_PIECE

struct nf_codec {
  const nf_codec_ops *ops;
  void *state;
  nf_output output;
  size_t expected; /* so far the output's pages have been asked for ahead of writing */
  /* How far the writer is: of so many parts so many are done; from that is guessed what output will come. */
  uint64_t parts, parts_done;
  int haste; /* how quickly LZ4 gives up where it finds nothing: its `acceleration`, 1 to begin with */
};

/* `most` is at least what will be written in all. Tells in *reserved whether the output has been reserved in
 * full. */
bool nf_codec_begin(nf_codec *codec, nf_codec_kind kind, uint64_t most, bool *reserved, nf_error *error);

/* Writes one piece. If it is a full one, the NF_CODEC_HISTORY bytes before it are the codec's until it is
 * gone, and the next piece comes from the same place: LZ4 keeps there what it refers to. */
bool nf_codec_write(nf_codec *codec, uint8_t *bytes, size_t len, nf_error *error);

/* Hands over the output, trimmed. The codec is gone, also on failure. */
bool nf_codec_end(nf_codec *codec, nf_output *output, nf_error *error);

/* Instead of nf_codec_end. */
void nf_codec_drop(nf_codec *codec);

/* For the codecs: `len` bytes of room at the end of the output, or NULL. */
uint8_t *nf_codec_room(nf_codec *codec, size_t len);

#ifdef __cplusplus
}
#endif

#endif
