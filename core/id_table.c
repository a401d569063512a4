#include "core/id_table.h"

#include "core/alloc.h"

/* What an empty table points to: one free slot. Never written. */
static uint8_t no_tags[1];

#define SLOT_BYTES (sizeof(uint32_t) + sizeof(uint8_t))

static size_t block_size(const nf_id_table *table) {
  return table->ids ? ((size_t)table->mask + 1) * SLOT_BYTES : 0;
}

void nf_id_table_init(nf_id_table *table) { *table = (nf_id_table){.tags = no_tags}; }

void nf_id_table_deinit(nf_id_table *table, nf_account *account) {
  size_t size = block_size(table);
  nf_pages_free(table->ids, size);
  account->held -= size;
  nf_id_table_init(table);
}

void nf_id_table_insert(nf_id_table *table, uint64_t hash, uint32_t id) {
  uint32_t slot = (uint32_t)hash & table->mask;
  while (table->tags[slot]) slot = (slot + 1) & table->mask;
  table->tags[slot] = (uint8_t)(hash >> 57 | 0x80);
  table->ids[slot] = id;
  table->count++;
}

bool nf_id_table_reserve(nf_id_table *table, nf_account *account, uint32_t more, nf_id_hash *hash_of,
                         const void *owner) {
  size_t slots = table->ids ? (size_t)table->mask + 1 : 0, needed = (size_t)table->count + more;
  if (needed * 5 <= slots * 4) return true; /* at most four fifths full */
  account->exhausted = false;
  size_t wanted = slots ? slots : 16;
  while (needed * 5 > wanted * 4) wanted *= 2;
  if (wanted > (size_t)1 << 31 || !nf_account_charge(account, wanted * SLOT_BYTES)) return false;
  uint32_t *ids = nf_pages_alloc(wanted * SLOT_BYTES);
  if (!ids) {
    account->held -= wanted * SLOT_BYTES;
    return false;
  }
  nf_pages_spread(ids, wanted * SLOT_BYTES);
  nf_id_table grown = {.ids = ids, .tags = (uint8_t *)(ids + wanted), .mask = (uint32_t)wanted - 1};
  for (size_t slot = 0; slot < slots; slot++)
    if (table->tags[slot]) nf_id_table_insert(&grown, hash_of(owner, table->ids[slot]), table->ids[slot]);
  nf_id_table_deinit(table, account);
  *table = grown;
  return true;
}
