#include "core/bytes_table.h"

bool nf_bytes_table_init(nf_bytes_table *table, nf_account *account) {
  *table = (nf_bytes_table){.bytes = NF_ARRAY_EMPTY, .offsets = NF_ARRAY_EMPTY};
  nf_id_table_init(&table->index);
  if (!nf_array_reserve(&table->offsets, account, 16 * sizeof(uint32_t))) return false;
  nf_array_append(&table->offsets, &(uint32_t){0}, sizeof(uint32_t));
  return true;
}

void nf_bytes_table_deinit(nf_bytes_table *table, nf_account *account) {
  nf_bytes_table_drop_index(table, account);
  nf_array_deinit(&table->bytes, account);
  nf_array_deinit(&table->offsets, account);
}

void nf_bytes_table_drop_index(nf_bytes_table *table, nf_account *account) {
  nf_id_table_deinit(&table->index, account);
}

static uint64_t hash_of(const void *owner, uint32_t id) {
  nf_bytes entry = nf_bytes_table_get(owner, id);
  return nf_hash_bytes(entry.ptr, entry.len);
}

bool nf_bytes_table_reserve(nf_bytes_table *table, nf_account *account, size_t entries, size_t bytes) {
  if (entries >= NF_ID_LIMIT - nf_bytes_table_count(table) || bytes >= UINT32_MAX - table->bytes.used) {
    account->exhausted = false;
    return false;
  }
  return nf_array_reserve(&table->bytes, account, bytes) &&
         nf_array_reserve(&table->offsets, account, entries * sizeof(uint32_t)) &&
         nf_id_table_reserve(&table->index, account, (uint32_t)entries, hash_of, table);
}

uint32_t nf_bytes_table_insert(nf_bytes_table *table, const void *ptr, size_t len, uint64_t hash) {
  uint32_t id = nf_bytes_table_count(table);
  nf_array_append(&table->bytes, ptr, len);
  nf_array_append(&table->offsets, &(uint32_t){(uint32_t)table->bytes.used}, sizeof(uint32_t));
  nf_id_table_insert(&table->index, hash, id);
  return id;
}

uint32_t nf_bytes_table_intern(nf_bytes_table *table, const void *ptr, size_t len) {
  uint64_t hash = nf_hash_bytes(ptr, len);
  uint32_t id = nf_bytes_table_find(table, ptr, len, hash);
  return id != NF_ID_NONE ? id : nf_bytes_table_insert(table, ptr, len, hash);
}
