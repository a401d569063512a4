#include "core/abi/error_abi.h"

#include "core/alloc.h"

#include <datadog/profiling.h>
#include <string.h>

/* An empty vector: its pointer is not NULL, but never followed. */
static const ddog_Vec_U8 empty = {(const uint8_t *)1, 0, 0};

ddog_Error nf_abi_take_error(nf_error *error) {
  if (!error->text) { /* no memory even for a text: a constant that is not freed, as its capacity says */
    const char *text = nf_error_text(error);
    return (ddog_Error){{(const uint8_t *)text, strlen(text), 0}};
  }
  ddog_Error taken = {{(const uint8_t *)error->text, error->len, error->len + 1}};
  *error = (nf_error){0};
  return taken;
}

ddog_CharSlice ddog_Error_message(const struct ddog_Error *error) {
  if (!error || !error->message.ptr) return (ddog_CharSlice){"", 0};
  return (ddog_CharSlice){(const char *)error->message.ptr, error->message.len};
}

void ddog_Error_drop(struct ddog_Error *error) {
  if (!error) return;
  if (error->message.capacity) nf_free((void *)(uintptr_t)error->message.ptr);
  error->message = empty;
}

struct ddog_Slice_U8 ddog_Vec_U8_as_slice(const struct ddog_Vec_U8 *vec) {
  if (!vec || !vec->ptr) return (ddog_Slice_U8){empty.ptr, 0};
  return (ddog_Slice_U8){vec->ptr, vec->len};
}
