/* How much each endpoint did. A profile collects it; encoding hands it over as an object of its own, for the exporter. */
#ifndef NF_CORE_ENDPOINT_STATS_H
#define NF_CORE_ENDPOINT_STATS_H

#include "core/bytes.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_endpoint_stats nf_endpoint_stats;

/* An empty object on the heap; NULL when out of memory. */
nf_endpoint_stats *nf_endpoint_stats_new(void);
void nf_endpoint_stats_drop(nf_endpoint_stats *stats);

/* Adds to the count of a name, which is valid UTF-8; sums wrap around. False when out of memory, or when a new name would need more
 * than `budget` bytes in all, which *exhausted tells. */
bool nf_endpoint_stats_add(nf_endpoint_stats *stats, const char *name, size_t len, int64_t value,
                           size_t budget, bool *exhausted);

/* The entries, in the order in which they came up. */
size_t nf_endpoint_stats_count(const nf_endpoint_stats *stats);
nf_bytes nf_endpoint_stats_name(const nf_endpoint_stats *stats, size_t index);
int64_t nf_endpoint_stats_value(const nf_endpoint_stats *stats, size_t index);

/* Memory, in bytes. */
size_t nf_endpoint_stats_held(const nf_endpoint_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
