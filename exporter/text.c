#include "exporter/text.h"

#include "core/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

nf_text nf_text_of(const char *string) { return (nf_text){string, string ? strlen(string) : 0}; }

char *nf_text_copy(nf_text text) {
  char *copy = malloc(text.len + 1);
  if (!copy) return NULL;
  if (text.len) memcpy(copy, text.ptr, text.len);
  copy[text.len] = 0;
  return copy;
}

bool nf_text_copy_string(char **to, const char *from) {
  *to = from ? nf_text_copy(nf_text_of(from)) : NULL;
  return *to || !from;
}

bool nf_text_check_utf8(nf_text text, nf_error *error) { return nf_utf8_check(text.ptr, text.len, error); }

void nf_text_append_lossy(nf_buffer *out, nf_text text) {
  size_t size = nf_utf8_lossy_size(text.ptr, text.len);
  if (size == 0 || !nf_buffer_reserve(out, size)) return;
  nf_utf8_lossy(text.ptr, text.len, out->data + out->len);
  out->len += size;
}

bool nf_text_equal_ignoring_case(nf_text a, nf_text b) {
  if (a.len != b.len) return false;
  for (size_t i = 0; i < a.len; i++) {
    unsigned char x = (unsigned char)a.ptr[i], y = (unsigned char)b.ptr[i];
    if (x >= 'A' && x <= 'Z') x |= 0x20;
    if (y >= 'A' && y <= 'Z') y |= 0x20;
    if (x != y) return false;
  }
  return true;
}

static bool blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

nf_text nf_text_trim(nf_text text) {
  while (text.len && blank(text.ptr[0])) text.ptr++, text.len--;
  while (text.len && blank(text.ptr[text.len - 1])) text.len--;
  return text;
}

static const char *describe(int number, char *buffer, size_t size) {
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
  return strerror_r(number, buffer, size);
#else
  return strerror_r(number, buffer, size) == 0 ? buffer : "Unknown error";
#endif
}

void nf_text_append_errno(nf_buffer *out, int number) {
  char buffer[128];
  nf_buffer_append_format(out, "%s (os error %d)", describe(number, buffer, sizeof buffer), number);
}
