/* Byte strings, each kept once and known by a dense id from 0: the string table, the stacks and the label
 * sets of a profile.
 *
 * What a profile holds in large numbers is kept as the bytes that the encoder will copy (a stack is a list of
 * varint ids), so that interning is one hash and one comparison, and encoding is a memcpy. */
#ifndef NF_CORE_BYTES_TABLE_H
#define NF_CORE_BYTES_TABLE_H

#include "core/array.h"
#include "core/bytes.h"
#include "core/hash.h"
#include "core/id_table.h"

typedef struct nf_bytes_table {
  nf_array bytes;   /* all strings, one behind the other */
  nf_array offsets; /* uint32_t: where each begins, and where the next one will */
  nf_id_table index;
} nf_bytes_table;

bool nf_bytes_table_init(nf_bytes_table *table, nf_account *account);
void nf_bytes_table_deinit(nf_bytes_table *table, nf_account *account);

/* Frees what only nf_bytes_table_find needs. */
void nf_bytes_table_drop_index(nf_bytes_table *table, nf_account *account);

static inline uint32_t nf_bytes_table_count(const nf_bytes_table *table) {
  return (uint32_t)(NF_ROW_COUNT(table->offsets, uint32_t) - 1);
}

/* Borrowed until the table changes. */
static inline nf_bytes nf_bytes_table_get(const nf_bytes_table *table, uint32_t id) {
  const uint32_t *offset = NF_ROWS(table->offsets, uint32_t) + id;
  return (nf_bytes){table->bytes.data + offset[0], offset[1] - offset[0]};
}

/* True if entry `id` has these bytes. `ptr` may be NULL, which equals only the empty entry. */
static inline bool nf_bytes_table_equal(const nf_bytes_table *table, uint32_t id, const void *ptr,
                                        size_t len) {
  nf_bytes entry = nf_bytes_table_get(table, id);
  return entry.len == len && (!len || (ptr && nf_bytes_equal(entry.ptr, ptr, len)));
}

/* The id of these bytes, or NF_ID_NONE. `hash` is nf_hash_bytes(ptr, len). */
static inline uint32_t nf_bytes_table_find(const nf_bytes_table *table, const void *ptr, size_t len,
                                           uint64_t hash) {
  nf_id_probe probe = nf_id_table_probe(&table->index, hash);
  for (uint32_t id; nf_id_probe_next(&probe, &id);)
    if (nf_bytes_table_equal(table, id, ptr, len)) return id;
  return NF_ID_NONE;
}

/* Makes room for `entries` more entries of `bytes` bytes in all. */
bool nf_bytes_table_reserve(nf_bytes_table *table, nf_account *account, size_t entries, size_t bytes);

/* Adds bytes that the table does not have, into reserved room. */
uint32_t nf_bytes_table_insert(nf_bytes_table *table, const void *ptr, size_t len, uint64_t hash);

/* Finds or adds, into reserved room. */
uint32_t nf_bytes_table_intern(nf_bytes_table *table, const void *ptr, size_t len);

#endif
