#include "core/window.h"

#include "core/alloc.h"

bool nf_window_init(nf_window *window, nf_codec *codec, uint64_t most, nf_error *error) {
  size_t size = most < NF_CODEC_PIECE - NF_WINDOW_SLACK ? (size_t)most + NF_WINDOW_SLACK : NF_WINDOW_SIZE;
  void *memory = size < NF_PAGES_FROM ? nf_alloc(size) : nf_pages_alloc(size); /* need not be zeroed */
  *window = (nf_window){.memory = memory, .size = size, .codec = codec, .error = error};
  window->bytes = window->memory;
  return window->memory || nf_error_set_no_memory(error);
}

void nf_window_deinit(nf_window *window) {
  nf_pages_free(window->memory, window->size);
  window->memory = window->bytes = NULL;
}

void nf_window_flush(nf_window *window) {
  size_t piece = window->used < NF_CODEC_PIECE ? window->used : NF_CODEC_PIECE;
  if (!window->failed) window->failed = !nf_codec_write(window->codec, window->bytes, piece, window->error);
  window->used -= piece;
  window->bytes += piece;
  size_t left = window->size - (size_t)(window->bytes - window->memory);
  if (window->size < NF_WINDOW_SIZE || left >= NF_CODEC_PIECE + NF_WINDOW_RECORD_MOST) return;
  memcpy(window->memory, window->bytes, window->used);
  window->bytes = window->memory;
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
