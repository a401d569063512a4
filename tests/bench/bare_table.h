/* What the bare engine is made of: 128-bit hashes, tables that know things by their hash, growing buffers,
 * varints. */
#ifndef NF_BENCH_BARE_TABLE_H
#define NF_BENCH_BARE_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tests/bench/workload.h"

/* ---- hashes: two lanes, 16 bytes for each multiplication ---- */

typedef struct hash {
  uint64_t a, b;
} hash;

static const uint64_t HASH_1 = 0x9E3779B97F4A7C15ull, HASH_2 = 0xE7037ED1A0B428DBull,
                      HASH_3 = 0x8EBC6AF09C88C6E3ull;

static inline uint64_t read_u64(const char *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint64_t fold(uint64_t a, uint64_t b) {
  __extension__ unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_of_bytes(text t) {
  const char *p = t.ptr;
  size_t n = t.len;
  uint64_t h = n ^ HASH_1;
  if (n >= 16) {
    for (; n > 16; n -= 16, p += 16) h = fold(read_u64(p) ^ HASH_2, read_u64(p + 8) ^ h);
    return fold(read_u64(p + n - 16) ^ HASH_3, read_u64(p + n - 8) ^ h);
  }
  if (n >= 8) return fold(read_u64(p) ^ HASH_2, read_u64(p + n - 8) ^ h);
  uint64_t v = 0;
  for (size_t i = 0; i < n; i++) v = v << 8 | (uint8_t)p[i];
  return fold(v ^ HASH_2, h);
}

static inline hash hash_with(hash h, uint64_t x, uint64_t y) {
  return (hash){fold(h.a ^ x, y ^ HASH_1), fold(h.b ^ y, x ^ HASH_2)};
}

static inline hash hash_of_text(text t) { return (hash){hash_of_bytes(t), t.len * HASH_3 + HASH_1}; }

static inline hash hash_of_texts(text x, text y) { return (hash){hash_of_bytes(x), hash_of_bytes(y)}; }

static inline hash hash_of_pointers(text x, text y) {
  return (hash){(uintptr_t)x.ptr * HASH_1 ^ x.len, (uintptr_t)y.ptr * HASH_2 ^ y.len};
}

/* ---- tables ---- */

typedef struct slot {
  hash h;
  uint32_t value, used;
} slot;

typedef struct table {
  slot *slots;
  uint32_t mask, n;
} table;

void table_grow(table *t);
void table_deinit(table *t);

/* The slot of h, or the free one where it belongs until something else is inserted. */
static inline slot *table_find(table *t, hash h) {
  if (t->n * 2 >= t->mask) table_grow(t);
  uint32_t i = (uint32_t)h.a & t->mask;
  while (t->slots[i].used && (t->slots[i].h.a != h.a || t->slots[i].h.b != h.b)) i = (i + 1) & t->mask;
  return &t->slots[i];
}

/* Fills the free slot that was found for h. Returns its value: how many were there before. */
static inline uint32_t table_insert(table *t, slot *free_slot, hash h) {
  *free_slot = (slot){h, t->n, 1};
  return t->n++;
}

/* ---- buffers ---- */

typedef struct buffer {
  uint8_t *p;
  size_t len, cap;
} buffer;

typedef struct span {
  uint32_t at, len;
} span;

void buffer_grow(buffer *b, size_t n);
void buffer_deinit(buffer *b);

/* Where n bytes may be written; counts nothing. */
static inline uint8_t *buffer_room(buffer *b, size_t n) {
  if (b->len + n > b->cap) buffer_grow(b, n);
  return b->p + b->len;
}

static inline void buffer_append(buffer *b, const void *bytes, size_t n) {
  memcpy(buffer_room(b, n), bytes, n);
  b->len += n;
}

/* ---- protobuf ---- */

static inline uint8_t *put_varint(uint8_t *p, uint64_t v) {
  for (; v >= 128; v >>= 7) *p++ = (uint8_t)(v | 128);
  *p++ = (uint8_t)v;
  return p;
}

/* Zero is left out, as proto3 has it. */
static inline uint8_t *put_field(uint8_t *p, uint8_t number, uint64_t v) {
  if (v == 0) return p;
  *p++ = (uint8_t)(number << 3);
  return put_varint(p, v);
}

#endif
