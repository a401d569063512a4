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

/* memcmp() == 0, without a call for the lengths that names have. */
static inline bool nf_bytes_equal(const void *left, const void *right, size_t len) {
  typedef uint64_t block __attribute__((vector_size(16), aligned(1), may_alias));
  const uint8_t *a = left, *b = right;
  if (len > 16) {
    const uint8_t *last = a + len - 16;
    block diff = *(const block *)last ^ *(const block *)(b + len - 16);
    for (; a < last; a += 16, b += 16) diff |= *(const block *)a ^ *(const block *)b;
    return (diff[0] | diff[1]) == 0;
  }
  if (len >= 8)
    return ((nf_load64(a) ^ nf_load64(b)) | (nf_load64(a + len - 8) ^ nf_load64(b + len - 8))) == 0;
  if (len >= 4)
    return ((nf_load32(a) ^ nf_load32(b)) | (nf_load32(a + len - 4) ^ nf_load32(b + len - 4))) == 0;
  for (size_t i = 0; i < len; i++)
    if (a[i] != b[i]) return false;
  return true;
}

#endif
