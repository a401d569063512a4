#include "text_repair.h"

#include <string.h>

// Length of the well-formed sequence at the start, or 0; then *bad is the number of bytes to replace by one
// U+FFFD. Ranges as in the Unicode standard, table 3-7.
static size_t sequence(const unsigned char *s, size_t left, size_t *bad) {
  unsigned char first = s[0], low = 0x80, high = 0xBF;
  size_t length;
  *bad = 1;
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  if (first < 0xE0) {
    length = 2;
  } else if (first < 0xF0) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  for (size_t i = 1; i < length; i++) {
    if (i >= left || s[i] < low || s[i] > high) {
      *bad = i;
      return 0;
    }
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

bool nf_text_valid(const char *text, size_t length) {
  const unsigned char *s = (const unsigned char *)text;
  for (size_t i = 0, bad; i < length;) {
    size_t step = sequence(s + i, length - i, &bad);
    if (step == 0) return false;
    i += step;
  }
  return true;
}

size_t nf_text_repair(const char *text, size_t length, char *out) {
  const unsigned char *s = (const unsigned char *)text;
  size_t written = 0;
  for (size_t i = 0, bad; i < length;) {
    size_t step = sequence(s + i, length - i, &bad);
    if (step > 0) {
      memcpy(out + written, s + i, step);
      written += step;
      i += step;
    } else {
      memcpy(out + written, "\xEF\xBF\xBD", 3);
      written += 3;
      i += bad;
    }
  }
  return written;
}
