/* Protobuf's variable-length integers: seven bits a byte, least significant first. */
#ifndef NF_CORE_VARINT_H
#define NF_CORE_VARINT_H

#include <stddef.h>
#include <stdint.h>

#define NF_VARINT_MAX 10 /* bytes of a 64-bit one */
#define NF_VARINT32_MAX 5

/* Writes `value` at `out`, and returns where it ends. */
static inline uint8_t *nf_varint_put(uint8_t *out, uint64_t value) {
  while (value >= 0x80) {
    *out++ = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  *out++ = (uint8_t)value;
  return out;
}

/* The same for what is mostly below 2^14, without a branch between one byte and two. Writes two bytes at least, whatever it takes. */
static inline uint8_t *nf_varint_put32(uint8_t *out, uint32_t value) {
  if (__builtin_expect(value >> 14, 0)) return nf_varint_put(out, value);
  uint32_t two = value > 0x7f, bytes = (value + (value & 0x3f80)) | two << 7;
  out[0] = (uint8_t)bytes;
  out[1] = (uint8_t)(bytes >> 8);
  return out + 1 + two;
}

/* Reads what nf_varint_put wrote. */
static inline const uint8_t *nf_varint_get(const uint8_t *in, uint64_t *value) {
  uint64_t v = 0;
  for (unsigned shift = 0;; shift += 7) {
    v |= (uint64_t)(*in & 0x7f) << shift;
    if (*in++ < 0x80) break;
  }
  *value = v;
  return in;
}

static inline const uint8_t *nf_varint_get32(const uint8_t *in, uint32_t *value) {
  uint32_t v = *in++;
  if (v >= 0x80) {
    v &= 0x7f;
    for (unsigned shift = 7;; shift += 7) {
      v |= (uint32_t)(*in & 0x7f) << shift;
      if (*in++ < 0x80) break;
    }
  }
  *value = v;
  return in;
}

static inline size_t nf_varint_size(uint64_t value) {
  return (size_t)(((63 - __builtin_clzll(value | 1)) * 9 + 73) / 64);
}

#endif
