/* What an encoded profile tells of its endpoints; through C, as the engine's headers are not C++. */
#ifndef NF_FUZZ_ENDPOINT_COUNTS_H
#define NF_FUZZ_ENDPOINT_COUNTS_H

#include <datadog/profiling.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct endpoint_count {
  ddog_CharSlice name;
  int64_t value;
} endpoint_count;

size_t endpoint_counts_size(const ddog_prof_ProfiledEndpointsStats *stats);
endpoint_count endpoint_counts_get(const ddog_prof_ProfiledEndpointsStats *stats, size_t index);

#ifdef __cplusplus
}
#endif

#endif
