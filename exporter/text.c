#include "exporter/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

nf_text nf_text_of(const char *string) { return (nf_text){string, string ? strlen(string) : 0}; }

/* Length of the well-formed sequence at p, or 0; then *bad is the length of its longest valid beginning
 * (at least 1) and *cut says whether the text ended inside it. */
static size_t sequence(const unsigned char *p, size_t left, size_t *bad, bool *cut) {
  *bad = 1;
  *cut = false;
  unsigned char first = p[0], low = 0x80, high = 0xBF;
  size_t length;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF)
    length = 2;
  else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;  /* no overlong forms */
    if (first == 0xED) high = 0x9F; /* no surrogates */
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F; /* nothing past U+10FFFF */
  } else
    return 0;
  for (size_t i = 1; i < length; i++, low = 0x80, high = 0xBF) {
    if (i == left) return *bad = i, *cut = true, (size_t)0;
    if (p[i] < low || p[i] > high) return *bad = i, (size_t)0;
  }
  return length;
}

bool nf_text_check_utf8(nf_text text, nf_error *error) {
  size_t bad, length;
  bool cut;
  for (size_t i = 0; i < text.len; i += length) {
    length = sequence((const unsigned char *)text.ptr + i, text.len - i, &bad, &cut);
    if (length == 0 && cut) return nf_error_set(error, "incomplete utf-8 byte sequence from index %zu", i);
    if (length == 0) return nf_error_set(error, "invalid utf-8 sequence of %zu bytes from index %zu", bad, i);
  }
  return true;
}

void nf_text_append_lossy(nf_buffer *out, nf_text text) {
  size_t bad, length, good = 0;
  bool cut;
  for (size_t i = 0; i < text.len; i += length) {
    length = sequence((const unsigned char *)text.ptr + i, text.len - i, &bad, &cut);
    if (length > 0) continue;
    nf_buffer_append(out, text.ptr + good, i - good);
    nf_buffer_append_text(out, "\xEF\xBF\xBD");
    length = bad;
    good = i + length;
  }
  if (text.len > good) nf_buffer_append(out, text.ptr + good, text.len - good);
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
