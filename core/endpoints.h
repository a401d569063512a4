/* Endpoints: their names by local root span id, which become labels of the encoded profile, and their counts,
 * which travel beside it. */
#ifndef NF_CORE_ENDPOINTS_H
#define NF_CORE_ENDPOINTS_H

#include "core/array.h"
#include "core/id_table.h"

typedef struct nf_endpoint_row {
  uint64_t local_root_span_id;
  uint32_t name; /* a string of the profile */
} nf_endpoint_row;

typedef struct nf_endpoints {
  nf_array rows;
  nf_id_table index;
} nf_endpoints;

void nf_endpoints_init(nf_endpoints *endpoints);
void nf_endpoints_deinit(nf_endpoints *endpoints, nf_account *account);

static inline bool nf_endpoints_empty(const nf_endpoints *endpoints) { return endpoints->rows.used == 0; }

/* Makes room for one more. */
bool nf_endpoints_reserve(nf_endpoints *endpoints, nf_account *account);

/* Names a span, or renames it, in reserved room. */
void nf_endpoints_set(nf_endpoints *endpoints, uint64_t local_root_span_id, uint32_t name);

/* The name of a span, or NF_ID_NONE. */
uint32_t nf_endpoints_get(const nf_endpoints *endpoints, uint64_t local_root_span_id);

#endif
