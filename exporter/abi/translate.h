/* Between the public types and the exporter's own. */
#ifndef NF_EXPORTER_ABI_TRANSLATE_H
#define NF_EXPORTER_ABI_TRANSLATE_H

#include "core/abi/error_abi.h"
#include "core/error.h"
#include "exporter/request.h"
#include "exporter/tags.h"

#include <datadog/common.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline nf_text nf_exporter_abi_text(ddog_CharSlice slice) {
  return (nf_text){slice.ptr, slice.ptr ? slice.len : 0};
}

/* A view: the vector keeps owning its tags. */
nf_tags nf_exporter_abi_tags(ddog_Vec_Tag vec);

/* Counts per endpoint, sorted by name, the names borrowed from stats (which may be NULL); the caller frees
 * the array. False when out of memory. */
bool nf_exporter_abi_endpoint_counts(const struct ddog_prof_ProfiledEndpointsStats *stats,
                                     nf_endpoint_count **counts, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
