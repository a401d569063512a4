#include "core/error.h"

#include "core/alloc.h"

#include <stdio.h>
#include <string.h>

bool nf_error_set_no_memory(nf_error *error) {
  nf_error_deinit(error);
  return false;
}

bool nf_error_set_text(nf_error *error, const char *text, size_t len) {
  if (!error) return false;
  char *copy = nf_alloc(len + 1); /* before the old text goes: `text` may be a part of it */
  if (copy) {
    if (len) memcpy(copy, text, len);
    copy[len] = '\0';
  }
  nf_error_deinit(error);
  if (copy) *error = (nf_error){copy, len};
  return false;
}

bool nf_error_set_va(nf_error *error, const char *format, va_list args) {
  if (!error) return false;
  va_list again;
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *text = len < 0 ? NULL : nf_alloc((size_t)len + 1);
  if (text) vsnprintf(text, (size_t)len + 1, format, args);
  nf_error_deinit(error);
  if (text) *error = (nf_error){text, (size_t)len};
  return false;
}

bool nf_error_set(nf_error *error, const char *format, ...) {
  va_list args;
  va_start(args, format);
  nf_error_set_va(error, format, args);
  va_end(args);
  return false;
}

const char *nf_error_text(const nf_error *error) { return error->text ? error->text : "out of memory"; }

void nf_error_deinit(nf_error *error) {
  if (!error) return;
  nf_free(error->text);
  *error = (nf_error){0};
}
