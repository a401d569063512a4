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

/* How much output is still to come, if it goes on like this; rather too little, as a large page that is not
 * filled costs memory until the output is trimmed. */
static uint64_t output_to_come(const nf_codec *codec) {
  if (codec->parts_done == 0) return 0;
  double left = (double)(codec->parts - codec->parts_done) / (double)codec->parts_done;
  return (uint64_t)(left * 0.75 * (double)codec->output.len);
}

/* Finding pages one by one takes as long as a tenth of compressing, and much more on a virtual machine. Not
 * for the first step: little output should cost little memory. Large pages, where they will be filled. */
static void expect_more(nf_codec *codec) {
  enum { STEP = 64 << 10 };
  nf_output *output = &codec->output;
  if (codec->expected == 0) codec->expected = STEP;
  if (output->len + STEP / 2 < codec->expected || output->capacity < codec->expected + STEP) return;
  size_t past_boundary = (uintptr_t)(output->data + codec->expected) % NF_PAGES_LARGE;
  size_t next =
      past_boundary && NF_PAGES_LARGE - past_boundary < STEP ? NF_PAGES_LARGE - past_boundary : STEP;
  if (!past_boundary && output->capacity - codec->expected >= NF_PAGES_LARGE &&
      output_to_come(codec) >= NF_PAGES_LARGE)
    next = NF_PAGES_LARGE;
  nf_pages_expect(output->data, output->capacity, codec->expected, next);
  codec->expected += next;
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
