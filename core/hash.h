/* Hashing and comparing bytes, for the tables. Hashes never leave the process and never decide an order. */
#ifndef NF_CORE_HASH_H
#define NF_CORE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t nf_load64(const void *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint32_t nf_load32(const void *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

#define NF_HASH_K1 UINT64_C(0x9E3779B97F4A7C15)
#define NF_HASH_K2 UINT64_C(0xD6E8FEB86659FD93)
#define NF_HASH_K3 UINT64_C(0xA0761D6478BD642F)

/* Multiplies to 128 bits and folds: every bit of the result depends on every bit of both. */
static inline uint64_t nf_hash_mix(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
  __extension__ typedef unsigned __int128 uint128;
  uint128 product = (uint128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
  uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
  uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + (uint32_t)middle;
  return (other << 32 | (uint32_t)low) ^ (a1 * b1 + (middle >> 32) + (other >> 32));
#endif
}

static inline uint64_t nf_hash_pair(uint64_t a, uint64_t b) {
  return nf_hash_mix(a ^ NF_HASH_K1, b ^ NF_HASH_K2);
}

static inline uint64_t nf_hash_bytes(const void *bytes, size_t len) {
  const uint8_t *p = bytes;
  uint64_t h = len * NF_HASH_K1 ^ NF_HASH_K3;
  if (len >= 16) {
    const uint8_t *last = p + len - 16;
    for (; p < last; p += 16) h = nf_hash_mix(nf_load64(p) ^ NF_HASH_K2, nf_load64(p + 8) ^ h);
    return nf_hash_mix(nf_load64(last) ^ NF_HASH_K2, nf_load64(last + 8) ^ h);
  }
  if (len >= 8) return nf_hash_mix(nf_load64(p) ^ NF_HASH_K2, nf_load64(p + len - 8) ^ h);
  if (len >= 4) return nf_hash_mix((uint64_t)nf_load32(p) << 32 ^ nf_load32(p + len - 4) ^ NF_HASH_K2, h);
  uint64_t v = 0;
  for (size_t i = 0; i < len; i++) v = v << 8 | p[i];
  return nf_hash_mix(v ^ NF_HASH_K2, h);
}

/* ---- memcmp() == 0, without a call for the lengths that names have ---- */

/* Any length. */
bool nf_bytes_equal(const void *left, const void *right, size_t len);

/* Sixteen and thirty-two bytes, wherever they lie. The larger ones are one register in functions that are compiled for AVX2. */
typedef uint64_t nf_block16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t nf_block32 __attribute__((vector_size(32), aligned(1), may_alias));

#define NF_BLOCK16(p) (*(const nf_block16 *)(p))
#define NF_BLOCK32(p) (*(const nf_block32 *)(p))
#define NF_INLINE static inline __attribute__((always_inline))

/* First and last bytes, which may overlap. */
NF_INLINE bool nf_equal_4_to_8(const uint8_t *a, const uint8_t *b, size_t len) {
  return ((nf_load32(a) ^ nf_load32(b)) | (nf_load32(a + len - 4) ^ nf_load32(b + len - 4))) == 0;
}
NF_INLINE bool nf_equal_8_to_16(const uint8_t *a, const uint8_t *b, size_t len) {
  return ((nf_load64(a) ^ nf_load64(b)) | (nf_load64(a + len - 8) ^ nf_load64(b + len - 8))) == 0;
}
NF_INLINE bool nf_equal_16_to_32(const uint8_t *a, const uint8_t *b, size_t len) {
  nf_block16 diff = (NF_BLOCK16(a) ^ NF_BLOCK16(b)) | (NF_BLOCK16(a + len - 16) ^ NF_BLOCK16(b + len - 16));
  return (diff[0] | diff[1]) == 0;
}
NF_INLINE bool nf_equal_32_to_96(const uint8_t *a, const uint8_t *b, size_t len) {
  nf_block32 diff = (NF_BLOCK32(a) ^ NF_BLOCK32(b)) | (NF_BLOCK32(a + len - 32) ^ NF_BLOCK32(b + len - 32));
  if (len > 64) diff |= NF_BLOCK32(a + 32) ^ NF_BLOCK32(b + 32);
  return (diff[0] | diff[1] | diff[2] | diff[3]) == 0;
}

/* Any length, inline for those of most words. */
NF_INLINE bool nf_words_equal(const void *left, const void *right, size_t len) {
  if (len - 8 <= 16 - 8) return nf_equal_8_to_16(left, right, len);
  if (len - 17 <= 32 - 17) return nf_equal_16_to_32(left, right, len);
  if (len - 4 <= 7 - 4) return nf_equal_4_to_8(left, right, len);
  return nf_bytes_equal(left, right, len);
}

/* Any length, inline for those of most paths. */
NF_INLINE bool nf_paths_equal(const void *left, const void *right, size_t len) {
  return len - 32 <= 96 - 32 ? nf_equal_32_to_96(left, right, len) : nf_bytes_equal(left, right, len);
}

#endif
