#include "tests/fuzz/endpoint_counts.h"

#include "core/endpoint_stats.h"

static const nf_endpoint_stats *inner(const ddog_prof_ProfiledEndpointsStats *stats) {
  return (const nf_endpoint_stats *)(const void *)stats;
}

size_t endpoint_counts_size(const ddog_prof_ProfiledEndpointsStats *stats) {
  return nf_endpoint_stats_count(inner(stats));
}

endpoint_count endpoint_counts_get(const ddog_prof_ProfiledEndpointsStats *stats, size_t index) {
  nf_bytes name = nf_endpoint_stats_name(inner(stats), index);
  return (endpoint_count){{(const char *)name.ptr, name.len}, nf_endpoint_stats_value(inner(stats), index)};
}
