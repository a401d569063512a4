#include "exporter/abi/translate.h"

#include "core/endpoint_stats.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *left, const void *right) {
  const nf_endpoint_count *a = left, *b = right;
  size_t len = a->name.len < b->name.len ? a->name.len : b->name.len;
  int order = len ? memcmp(a->name.ptr, b->name.ptr, len) : 0;
  return order ? order : a->name.len < b->name.len ? -1 : a->name.len > b->name.len;
}

bool nf_exporter_abi_endpoint_counts(const struct ddog_prof_ProfiledEndpointsStats *stats,
                                     nf_endpoint_count **counts, size_t *count) {
  const nf_endpoint_stats *from = (const nf_endpoint_stats *)stats;
  *count = from ? nf_endpoint_stats_count(from) : 0;
  *counts = NULL;
  if (*count == 0) return true;
  nf_endpoint_count *list = nf_zeroed(*count, sizeof *list);
  if (!list) return false;
  for (size_t i = 0; i < *count; i++) {
    nf_bytes name = nf_endpoint_stats_name(from, i);
    list[i] = (nf_endpoint_count){.name = {(const char *)name.ptr, name.len},
                                  .count = nf_endpoint_stats_value(from, i)};
  }
  qsort(list, *count, sizeof *list, by_name);
  *counts = list;
  return true;
}
