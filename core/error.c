#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool nf_error_set(nf_error *error, const char *format, ...) {
  if (!error) return false;
  nf_error_deinit(error);
  va_list args;
  va_start(args, format);
  int needed = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (needed < 0) return false;
  char *text = malloc((size_t)needed + 1);
  if (!text) return false;
  va_start(args, format);
  vsnprintf(text, (size_t)needed + 1, format, args);
  va_end(args);
  *error = (nf_error){text, (size_t)needed};
  return false;
}

void nf_error_deinit(nf_error *error) {
  if (!error) return;
  free(error->text);
  *error = (nf_error){NULL, 0};
}
