#include "core/hash.h"

bool nf_bytes_equal(const void *left, const void *right, size_t len) {
  const uint8_t *a = left, *b = right;
  if (len > 96) return memcmp(a, b, len) == 0;
  if (len >= 32) return nf_equal_32_to_96(a, b, len);
  if (len >= 16) return nf_equal_16_to_32(a, b, len);
  if (len >= 8) return nf_equal_8_to_16(a, b, len);
  if (len >= 4) return nf_equal_4_to_8(a, b, len);
  return len == 0 || (a[0] == b[0] && a[len / 2] == b[len / 2] && a[len - 1] == b[len - 1]);
}
