#include "core/timeline.h"

#include "core/varint.h"

/* What a shape says of a value: 0 to 8 bytes, or that it is 1. */
enum { ONE = 9 };

/* The first byte of a record: a shape, or that the shape itself follows. */
enum { SHAPE_FOLLOWS = 255 };

/* Values are copied eight bytes at a time, also the last ones. */
enum { SLACK = 8 };

/* Records hold the low bytes of values, lowest first, whatever the machine's order is. */
static uint64_t lowest_first(uint64_t value) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  return __builtin_bswap64(value);
#else
  return value;
#endif
}

bool nf_timeline_init(nf_timeline *timeline, nf_account *account, uint32_t n_values) {
  *timeline = (nf_timeline){.n_values = n_values};
  return nf_bytes_table_init(&timeline->shapes, account);
}

void nf_timeline_deinit(nf_timeline *timeline, nf_account *account) {
  nf_array_deinit(&timeline->records, account);
  nf_bytes_table_deinit(&timeline->shapes, account);
}

static size_t most(const nf_timeline *timeline) {
  return 1 + 2 * NF_VARINT32_MAX + NF_VARINT_MAX + (size_t)timeline->n_values * (1 + 8) + SLACK;
}

bool nf_timeline_reserve(nf_timeline *timeline, nf_account *account) {
  return nf_array_reserve(&timeline->records, account, most(timeline)) &&
         (nf_bytes_table_count(&timeline->shapes) == SHAPE_FOLLOWS ||
          nf_bytes_table_reserve(&timeline->shapes, account, 1, timeline->n_values));
}

static inline uint64_t zigzag(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }
static inline int64_t unzigzag(uint64_t v) { return (int64_t)(v >> 1 ^ -(v & 1)); }

static inline uint8_t code_of(int64_t value) {
  if ((uint64_t)value <= 1) return value ? ONE : 0;
  return (uint8_t)(8 - (unsigned)__builtin_clzll((uint64_t)value) / 8);
}

static inline size_t size_of(uint8_t code) { return code == ONE ? 0 : code; }

void nf_timeline_append(nf_timeline *timeline, uint32_t stack, uint32_t labels, int64_t timestamp,
                        const int64_t *values) {
  uint8_t *start = timeline->records.data + timeline->records.used, *out = start + 1;
  uint8_t *codes =
      start + most(timeline) - timeline->n_values; /* at the end of what is reserved, until they are known */
  for (uint32_t i = 0; i < timeline->n_values; i++) codes[i] = code_of(values[i]);
  uint64_t hash = nf_hash_bytes(codes, timeline->n_values);
  uint32_t shape = nf_bytes_table_find(&timeline->shapes, codes, timeline->n_values, hash);
  if (shape == NF_ID_NONE && nf_bytes_table_count(&timeline->shapes) < SHAPE_FOLLOWS)
    shape = nf_bytes_table_insert(&timeline->shapes, codes, timeline->n_values, hash);
  if (shape == NF_ID_NONE) {
    *start = SHAPE_FOLLOWS;
    memmove(out, codes, timeline->n_values);
    codes = out;
    out += timeline->n_values;
  } else {
    *start = (uint8_t)shape;
    codes = (uint8_t *)nf_bytes_table_get(&timeline->shapes, shape).ptr;
  }
  out = nf_varint_put32(out, stack);
  out = nf_varint_put(out, zigzag((int64_t)timeline->newest_labels - labels));
  out = nf_varint_put(out, zigzag((int64_t)((uint64_t)timestamp - (uint64_t)timeline->last_timestamp)));
  for (uint32_t i = 0; i < timeline->n_values; i++) {
    const uint64_t value = lowest_first((uint64_t)values[i]);
    memcpy(out, &value, sizeof value);
    out += size_of(codes[i]);
  }
  timeline->records.used = (size_t)(out - timeline->records.data);
  if (labels > timeline->newest_labels) timeline->newest_labels = labels;
  timeline->last_timestamp = timestamp;
  timeline->count++;
}

nf_timeline_reader nf_timeline_read(const nf_timeline *timeline) {
  return (nf_timeline_reader){.timeline = timeline, .next = timeline->records.data, .left = timeline->count};
}

bool nf_timeline_next(nf_timeline_reader *reader, int64_t *values) {
  const nf_timeline *timeline = reader->timeline;
  if (!reader->left) return false;
  reader->left--;
  const uint8_t *in = reader->next;
  uint8_t shape = *in++;
  const uint8_t *codes = in;
  if (shape == SHAPE_FOLLOWS)
    in += timeline->n_values;
  else
    codes = nf_bytes_table_get(&timeline->shapes, shape).ptr;
  uint64_t labels, timestamp;
  in = nf_varint_get32(in, &reader->stack);
  in = nf_varint_get(in, &labels);
  in = nf_varint_get(in, &timestamp);
  for (uint32_t i = 0; i < timeline->n_values; i++) {
    uint64_t value;
    memcpy(&value, in, sizeof value);
    value = lowest_first(value);
    size_t size = size_of(codes[i]);
    in += size;
    if (codes[i] == ONE)
      values[i] = 1;
    else
      values[i] = size == 8 ? (int64_t)value : (int64_t)(value & ((UINT64_C(1) << 8 * size) - 1));
  }
  reader->timestamp = (int64_t)((uint64_t)reader->timestamp + (uint64_t)unzigzag(timestamp));
  reader->labels = (uint32_t)((int64_t)reader->newest_labels - unzigzag(labels));
  if (reader->labels > reader->newest_labels) reader->newest_labels = reader->labels;
  reader->next = in;
  return true;
}
