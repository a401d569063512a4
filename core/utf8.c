#include "core/utf8.h"

#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"

/* The size of the character at `p`, or 0 with the fault filled in. */
static unsigned step(const uint8_t *p, size_t left, unsigned *fault) {
  uint8_t lead = p[0], low = 0x80, high = 0xBF;
  unsigned size;
  if (lead < 0x80) return 1;
  *fault = 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  if (lead < 0xE0) {
    size = 2;
  } else if (lead < 0xF0) {
    size = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else {
    size = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  for (unsigned i = 1; i < size; i++) {
    if (i == left) {
      *fault = 0;
      return 0;
    }
    if (p[i] < low || p[i] > high) {
      *fault = i;
      return 0;
    }
    low = 0x80;
    high = 0xBF;
  }
  return size;
}

bool nf_utf8_valid(const char *text, size_t len, nf_utf8_fault *fault) {
  const uint8_t *p = (const uint8_t *)text;
  for (size_t i = 0; i < len;) {
    if (len - i >= 8) { /* mostly ASCII: eight at once */
      uint64_t word;
      memcpy(&word, p + i, sizeof word);
      if (!(word & UINT64_C(0x8080808080808080))) {
        i += 8;
        continue;
      }
    }
    unsigned size = step(p + i, len - i, &fault->len);
    if (!size) {
      fault->index = i;
      return false;
    }
    i += size;
  }
  return true;
}

bool nf_utf8_check(const char *text, size_t len, nf_error *error) {
  nf_utf8_fault fault;
  if (nf_utf8_valid(text, len, &fault)) return true;
  if (!fault.len) return nf_error_set(error, "incomplete utf-8 byte sequence from index %zu", fault.index);
  return nf_error_set(error, "invalid utf-8 sequence of %u bytes from index %zu", fault.len, fault.index);
}

/* Calls for what is valid and for what replaces the rest would hide the loop; sizes are counted where `out`
 * is NULL. */
static size_t replace(const char *text, size_t len, char *out) {
  size_t size = 0;
  nf_utf8_fault fault;
  while (!nf_utf8_valid(text, len, &fault)) {
    if (out) {
      if (fault.index) memcpy(out + size, text, fault.index);
      memcpy(out + size + fault.index, REPLACEMENT, 3);
    }
    size += fault.index + 3;
    size_t skip =
        fault.len ? fault.index + fault.len : len; /* an incomplete character at the end counts once */
    text += skip;
    len -= skip;
  }
  if (out && len) memcpy(out + size, text, len);
  return size + len;
}

size_t nf_utf8_lossy_size(const char *text, size_t len) { return replace(text, len, NULL); }

void nf_utf8_lossy(const char *text, size_t len, char *out) { replace(text, len, out); }
