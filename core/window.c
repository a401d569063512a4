#include "core/window.h"

#include "core/alloc.h"

bool nf_window_init(nf_window *window, nf_codec *codec, nf_error *error) {
  *window = (nf_window){.memory = nf_pages_alloc(NF_WINDOW_SIZE), .codec = codec, .error = error};
  window->bytes = window->memory;
  return window->memory || nf_error_set_no_memory(error);
}

void nf_window_deinit(nf_window *window) {
  nf_pages_free(window->memory, NF_WINDOW_SIZE);
  window->memory = window->bytes = NULL;
}

void nf_window_flush(nf_window *window) {
  size_t piece = window->used < NF_CODEC_PIECE ? window->used : NF_CODEC_PIECE;
  if (!window->failed) window->failed = !nf_codec_write(window->codec, window->bytes, piece, window->error);
  window->used -= piece;
  window->bytes += piece;
  size_t left = NF_WINDOW_SIZE - (size_t)(window->bytes - window->memory);
  if (left >= NF_CODEC_PIECE + NF_WINDOW_RECORD_MOST) return;
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
