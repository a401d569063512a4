#include "core/hash.h"

bool nf_bytes_equal(const void *left, const void *right, size_t len) {
  const uint8_t *a = left, *b = right;
  if (len > 96) return memcmp(a, b, len) == 0;
  if (len > 64) return nf_all(nf_same6(a, b, len));
  if (len > 32) return nf_all(nf_same4(a, b, len));
  if (len > 16) return nf_all(nf_same2(a, b, len));
  if (len >= 8) return nf_same_8_to_16(a, b, len);
  if (len >= 4) return ((nf_load32(a) ^ nf_load32(b)) | (nf_load32(a + len - 4) ^ nf_load32(b + len - 4))) == 0;
  return len == 0 || (a[0] == b[0] && a[len / 2] == b[len / 2] && a[len - 1] == b[len - 1]);
}
