#include "core/endpoint_stats.h"

#include "core/alloc.h"

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

bool nf_endpoint_stats_add(nf_endpoint_stats *stats, const char *name, size_t len, int64_t value) {
  /* An object without entries is what most profiles have: its table is made when the first one comes. */
  if (!stats->names.offsets.data && !nf_bytes_table_init(&stats->names, &stats->account)) return false;
  if (!nf_bytes_table_reserve(&stats->names, &stats->account, 1, len) ||
      !nf_array_reserve(&stats->counts, &stats->account, sizeof value))
    return false;
  uint32_t id = nf_bytes_table_intern(&stats->names, name, len);
  if (id == nf_endpoint_stats_count(stats)) nf_array_append(&stats->counts, &(int64_t){0}, sizeof value);
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
