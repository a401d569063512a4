#include "core/endpoint_stats.h"

#include "core/alloc.h"
#include "core/bytes_table.h"

struct nf_endpoint_stats {
  nf_account account;
  nf_bytes_table names;
  nf_array counts; /* int64_t, by the id of the name */
};

nf_endpoint_stats *nf_endpoint_stats_new(void) {
  nf_endpoint_stats *stats = nf_alloc_zeroed(sizeof *stats);
  if (!stats) return NULL;
  stats->account.budget = SIZE_MAX;
  nf_id_table_init(&stats->names.index);
  return stats;
}

void nf_endpoint_stats_drop(nf_endpoint_stats *stats) {
  if (!stats) return;
  nf_bytes_table_deinit(&stats->names, &stats->account);
  nf_array_deinit(&stats->counts, &stats->account);
  nf_free(stats);
}

static bool reserve(nf_endpoint_stats *stats, size_t len) {
  /* An object without entries is what most profiles have: its table is made when the first one comes. */
  return (stats->names.offsets.capacity || nf_bytes_table_init(&stats->names, &stats->account)) &&
         nf_bytes_table_reserve(&stats->names, &stats->account, 1, len) &&
         nf_array_reserve(&stats->counts, &stats->account, sizeof(int64_t));
}

bool nf_endpoint_stats_add(nf_endpoint_stats *stats, const char *name, size_t len, int64_t value,
                           size_t budget, bool *exhausted) {
  stats->account.budget = budget;
  stats->account.exhausted = false;
  uint32_t id = nf_bytes_table_find(&stats->names, name, len, nf_hash_bytes(name, len));
  if (id == NF_ID_NONE) {
    bool ok = reserve(stats, len);
    *exhausted = stats->account.exhausted;
    if (!ok) return false;
    id = nf_bytes_table_intern(&stats->names, name, len);
    nf_array_append(&stats->counts, &(int64_t){0}, sizeof value);
  }
  int64_t *count = NF_ROWS(stats->counts, int64_t) + id;
  *count = (int64_t)((uint64_t)*count + (uint64_t)value);
  return true;
}

size_t nf_endpoint_stats_count(const nf_endpoint_stats *stats) {
  return NF_ROW_COUNT(stats->counts, int64_t);
}

nf_bytes nf_endpoint_stats_name(const nf_endpoint_stats *stats, size_t index) {
  return nf_bytes_table_get(&stats->names, (uint32_t)index);
}

int64_t nf_endpoint_stats_value(const nf_endpoint_stats *stats, size_t index) {
  return NF_ROWS(stats->counts, int64_t)[index];
}

size_t nf_endpoint_stats_held(const nf_endpoint_stats *stats) { return sizeof *stats + stats->account.held; }
