#include "core/window.h"

#include "core/alloc.h"

/* With so much to come, in the worst case, all of the window will be used. */
#define NF_WINDOW_WHOLE_FROM ((uint64_t)1 << 20)

bool nf_window_init(nf_window *window, nf_codec *codec, uint64_t most, nf_error *error) {
  bool one_piece = most < NF_CODEC_PIECE - NF_WINDOW_SLACK;
  size_t size = one_piece ? (size_t)most + NF_WINDOW_SLACK : NF_WINDOW_SIZE;
  uint8_t *memory = one_piece ? nf_alloc(size) : nf_pages_alloc(size); /* need not be zeroed */
  if (!memory) return nf_error_set_no_memory(error);
  uint8_t *bytes = one_piece ? memory : memory + NF_CODEC_HISTORY;
  *window = (nf_window){.memory = memory, .size = size, .bytes = bytes, .codec = codec, .error = error};
  if (most >= NF_WINDOW_WHOLE_FROM) nf_pages_expect(memory, size, 0, size);
  return true;
}

void nf_window_deinit(nf_window *window) {
  nf_pages_free(window->memory, window->size);
  window->memory = window->bytes = NULL;
}

void nf_window_flush(nf_window *window) {
  size_t piece = window->used < NF_CODEC_PIECE ? window->used : NF_CODEC_PIECE;
  if (!window->failed) window->failed = !nf_codec_write(window->codec, window->bytes, piece, window->error);
  window->used -= piece;
  memcpy(window->bytes, window->bytes + piece, window->used);
}

void nf_window_put(nf_window *window, const void *bytes, size_t len) {
  const uint8_t *from = bytes;
  while (len) {
    size_t room = NF_CODEC_PIECE - window->used, part = len < room ? len : room;
    memcpy(window->bytes + window->used, from, part);
    window->used += part;
    from += part;
    len -= part;
    if (window->used == NF_CODEC_PIECE) nf_window_flush(window);
  }
}
