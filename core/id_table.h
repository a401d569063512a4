/* A hash index over the ids of rows that live elsewhere. It holds ids and a few bits of hash, no keys: the
 * owner of the rows says what hash a row has and which row is the right one.
 *
 *     uint64_t hash = ...;
 *     nf_id_probe probe = nf_id_table_probe(&table, hash);
 *     for (uint32_t id; nf_id_probe_next(&probe, &id);)
 *       if (row `id` is the one) return id;
 *     return NF_ID_NONE;
 *
 * Open addressing, linear probing; one byte of hash for each slot keeps most wrong rows from being looked at.
 */
#ifndef NF_CORE_ID_TABLE_H
#define NF_CORE_ID_TABLE_H

#include "core/array.h"

#include <stdbool.h>
#include <stdint.h>

#define NF_ID_NONE UINT32_MAX

/* Ids stay below this, so that a bit of them is free for their users. */
#define NF_ID_LIMIT ((uint32_t)1 << 31)

typedef struct nf_id_table {
  uint8_t *tags; /* 0: the slot is free */
  uint32_t *ids;
  uint32_t mask; /* number of slots - 1 */
  uint32_t count;
} nf_id_table;

typedef struct nf_id_probe {
  const nf_id_table *table;
  uint32_t slot;
  uint8_t tag;
} nf_id_probe;

typedef uint64_t nf_id_hash(const void *owner, uint32_t id);

void nf_id_table_init(nf_id_table *table);
void nf_id_table_deinit(nf_id_table *table, nf_account *account);

/* Makes room for `more` ids. `hash_of` gives the hash of an id that is in the table already. */
bool nf_id_table_reserve(nf_id_table *table, nf_account *account, uint32_t more, nf_id_hash *hash_of,
                         const void *owner);

/* Adds an id that is not in the table, into reserved room. */
void nf_id_table_insert(nf_id_table *table, uint64_t hash, uint32_t id);

static inline nf_id_probe nf_id_table_probe(const nf_id_table *table, uint64_t hash) {
  return (nf_id_probe){table, (uint32_t)hash & table->mask, (uint8_t)(hash >> 57 | 0x80)};
}

/* The next id that may be the right one; false: there is none. */
static inline bool nf_id_probe_next(nf_id_probe *probe, uint32_t *id) {
  const nf_id_table *table = probe->table;
  for (uint32_t slot = probe->slot;; slot = (slot + 1) & table->mask) {
    uint8_t tag = table->tags[slot];
    if (tag == probe->tag) {
      *id = table->ids[slot];
      probe->slot = (slot + 1) & table->mask;
      return true;
    }
    if (tag == 0) return false;
  }
}

#endif
