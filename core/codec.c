#include "core/codec.h"

#include "core/alloc.h"

static const nf_codec_ops *const ops_of[NF_CODEC_COUNT] = {
    [NF_CODEC_LZ4_FRAME] = &nf_codec_lz4,
    [NF_CODEC_GZIP] = &nf_codec_gzip,
    [NF_CODEC_ZSTD] = &nf_codec_zstd,
    [NF_CODEC_NONE] = &nf_codec_none,
};

static size_t whole_pages(size_t size) { return (size + 4095) / 4096 * 4096; }

static bool set_capacity(nf_output *output, size_t capacity) {
  uint8_t *data = nf_pages_realloc(output->data, output->capacity, capacity);
  if (!data) return false;
  output->data = data;
  output->capacity = capacity;
  return true;
}

/* Finding pages one by one takes as long as a tenth of compressing, and more on a virtual machine. Not for
 * the first step: little output should cost little memory. */
static void expect_more(nf_codec *codec) {
  enum { STEP = 64 << 10 };
  nf_output *output = &codec->output;
  if (output->len < codec->expected + STEP / 2 || output->capacity - codec->expected < 2 * (size_t)STEP)
    return;
  codec->expected += STEP;
  nf_pages_expect(output->data, output->capacity, codec->expected, STEP);
}

uint8_t *nf_codec_room(nf_codec *codec, size_t len) {
  nf_output *output = &codec->output;
  if (output->capacity - output->len < len) {
    if (len > PTRDIFF_MAX / 2 - output->len) return NULL;
    size_t needed = output->len + len, roomy = needed + needed / 4;
    if (!set_capacity(output, whole_pages(roomy)) && !set_capacity(output, whole_pages(needed))) return NULL;
  }
  expect_more(codec);
  return output->data + output->len;
}

bool nf_codec_begin(nf_codec *codec, nf_codec_kind kind, uint64_t most, bool *reserved, nf_error *error) {
  *codec = (nf_codec){.ops = ops_of[kind], .haste = 1};
  /* Room that is not used costs no memory, but address space; without it the output grows step by step. */
  size_t bound = most < PTRDIFF_MAX / 4 ? codec->ops->bound((size_t)most) : 0;
  *reserved = bound && set_capacity(&codec->output, whole_pages(bound));
  codec->state = codec->ops->begin(codec);
  if (codec->state) return true;
  nf_codec_drop(codec);
  return nf_error_set_no_memory(error);
}

bool nf_codec_write(nf_codec *codec, uint8_t *bytes, size_t len, nf_error *error) {
  return !len || codec->ops->write(codec, bytes, len) || nf_error_set_no_memory(error);
}

bool nf_codec_end(nf_codec *codec, nf_output *output, nf_error *error) {
  if (!codec->ops->end(codec)) {
    nf_codec_drop(codec);
    return nf_error_set_no_memory(error);
  }
  set_capacity(&codec->output,
               codec->output.len < NF_PAGES_FROM ? codec->output.len : whole_pages(codec->output.len));
  *output = codec->output; /* untrimmed if there was no memory to trim it */
  codec->output = (nf_output){0};
  nf_codec_drop(codec);
  return true;
}

void nf_codec_drop(nf_codec *codec) {
  if (codec->state) codec->ops->drop(codec->state);
  nf_pages_free(codec->output.data, codec->output.capacity);
  *codec = (nf_codec){0};
}
