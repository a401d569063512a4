/* Hashing and comparing bytes, for the tables. Hashes never leave the process and never decide an order. */
#ifndef NF_CORE_HASH_H
#define NF_CORE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

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
  __uint128_t product = (__uint128_t)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
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

#ifdef __SSE2__
typedef __m128i nf_block;
static inline nf_block nf_same(const uint8_t *a, const uint8_t *b) {
  return _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i_u *)a), _mm_loadu_si128((const __m128i_u *)b));
}
static inline nf_block nf_both(nf_block a, nf_block b) { return _mm_and_si128(a, b); }
static inline bool nf_all(nf_block a) { return _mm_movemask_epi8(a) == 0xffff; }
#else
typedef uint64_t nf_block;
static inline nf_block nf_same(const uint8_t *a, const uint8_t *b) {
  return ~((nf_load64(a) ^ nf_load64(b)) | (nf_load64(a + 8) ^ nf_load64(b + 8)));
}
static inline nf_block nf_both(nf_block a, nf_block b) { return a & b; }
static inline bool nf_all(nf_block a) { return a == UINT64_MAX; }
#endif

/* 16 * n bytes: the first and the last ones, which may overlap. */
static inline nf_block nf_same2(const uint8_t *a, const uint8_t *b, size_t len) {
  return nf_both(nf_same(a, b), nf_same(a + len - 16, b + len - 16));
}
static inline nf_block nf_same4(const uint8_t *a, const uint8_t *b, size_t len) {
  return nf_both(nf_same2(a, b, len), nf_same2(a + 16, b + 16, len - 32));
}
static inline nf_block nf_same6(const uint8_t *a, const uint8_t *b, size_t len) {
  return nf_both(nf_same4(a, b, len), nf_same2(a + 32, b + 32, len - 64));
}

static inline bool nf_same_8_to_16(const uint8_t *a, const uint8_t *b, size_t len) {
  return ((nf_load64(a) ^ nf_load64(b)) | (nf_load64(a + len - 8) ^ nf_load64(b + len - 8))) == 0;
}

/* Any length. */
bool nf_bytes_equal(const void *left, const void *right, size_t len);

/* The same, inline for the lengths of most words and of most paths. */
static inline __attribute__((always_inline)) bool nf_words_equal(const void *left, const void *right, size_t len) {
  return len - 8 <= 8 ? nf_same_8_to_16(left, right, len) : nf_bytes_equal(left, right, len);
}
static inline __attribute__((always_inline)) bool nf_paths_equal(const void *left, const void *right, size_t len) {
  const uint8_t *a = left, *b = right;
  if (len - 33 > 96 - 33) return nf_bytes_equal(a, b, len);
  return len <= 64 ? nf_all(nf_same4(a, b, len)) : nf_all(nf_same6(a, b, len));
}

#endif
