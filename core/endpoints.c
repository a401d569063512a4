#include "core/endpoints.h"

#include "core/hash.h"

void nf_endpoints_init(nf_endpoints *endpoints) {
  *endpoints = (nf_endpoints){0};
  nf_id_table_init(&endpoints->index);
}

void nf_endpoints_deinit(nf_endpoints *endpoints, nf_account *account) {
  nf_array_deinit(&endpoints->rows, account);
  nf_id_table_deinit(&endpoints->index, account);
}

static nf_endpoint_row *row_at(const nf_endpoints *endpoints, uint32_t index) {
  return NF_ROWS(endpoints->rows, nf_endpoint_row) + index;
}

static uint64_t hash_span(uint64_t id) { return nf_hash_mix(id ^ NF_HASH_K1, NF_HASH_K2); }

static uint64_t hash_of(const void *owner, uint32_t index) {
  return hash_span(row_at(owner, index)->local_root_span_id);
}

static nf_endpoint_row *find(const nf_endpoints *endpoints, uint64_t id) {
  nf_id_probe probe = nf_id_table_probe(&endpoints->index, hash_span(id));
  for (uint32_t index; nf_id_probe_next(&probe, &index);)
    if (row_at(endpoints, index)->local_root_span_id == id) return row_at(endpoints, index);
  return NULL;
}

bool nf_endpoints_reserve(nf_endpoints *endpoints, nf_account *account) {
  account->exhausted = false;
  return NF_ROW_COUNT(endpoints->rows, nf_endpoint_row) < NF_ID_LIMIT &&
         nf_array_reserve(&endpoints->rows, account, sizeof(nf_endpoint_row)) &&
         nf_id_table_reserve(&endpoints->index, account, 1, hash_of, endpoints);
}

void nf_endpoints_set(nf_endpoints *endpoints, uint64_t id, uint32_t name) {
  nf_endpoint_row *row = find(endpoints, id);
  if (row) {
    row->name = name;
    return;
  }
  uint32_t index = (uint32_t)NF_ROW_COUNT(endpoints->rows, nf_endpoint_row);
  nf_endpoint_row added = {id, name};
  nf_array_append(&endpoints->rows, &added, sizeof added);
  nf_id_table_insert(&endpoints->index, hash_span(id), index);
}

uint32_t nf_endpoints_get(const nf_endpoints *endpoints, uint64_t id) {
  const nf_endpoint_row *row = find(endpoints, id);
  return row ? row->name : NF_ID_NONE;
}
