/* A profile: what it is told at its making, and the store of what was added since it was last emptied.
 *
 * Every function that adds is all or nothing: it looks everything up, checks what is new, reserves all the
 * memory that it may need, and only then changes anything. */
#ifndef NF_CORE_PROFILE_H
#define NF_CORE_PROFILE_H

#include "core/codec.h"
#include "core/endpoint_stats.h"
#include "core/endpoints.h"
#include "core/labels.h"
#include "core/locations.h"
#include "core/sample.h"
#include "core/samples.h"
#include "core/timeline.h"
#include "core/upscaling.h"

/* A moment: nanoseconds are below 10^9 and count forward. */
typedef struct nf_moment {
  int64_t seconds;
  uint32_t nanoseconds;
} nf_moment;

/* What a reset empties. */
typedef struct nf_store {
  nf_account account;
  nf_bytes_table strings;
  nf_locations locations;
  nf_labels labels;
  nf_bytes_table stacks; /* location ids as varints, leaf first */
  nf_samples samples;
  nf_timeline timeline;
  nf_endpoints endpoints;
  nf_endpoint_stats *endpoint_stats; /* NULL once handed over */
  nf_upscaling upscaling;
  uint64_t refused;       /* samples, by the budget */
  uint64_t encoded_bound; /* bytes that the samples can become when they are encoded */
  size_t most_labels;     /* of one sample */
} nf_store;

/* Ids of the strings of a sample type. */
typedef struct nf_value_type_ids {
  uint32_t type, unit;
} nf_value_type_ids;

typedef struct nf_profile nf_profile;
struct nf_profile {
  uint32_t n_types;
  nf_value_type_ids *types; /* ids are equal in every store: these strings come first */
  bool has_period;
  nf_value_type_ids period_type;
  int64_t period;
  nf_bytes_table first_strings; /* what every new store begins with */
  nf_account own;               /* what first_strings and scratch take */
  nf_moment start;
  nf_store store;
  struct { /* of the sample that is being added; kept to be used again */
    nf_array stack, known_stack, label_ids, label_set;
  } scratch;
  size_t (*write_stack)(nf_profile *profile, const nf_sample *sample); /* the one for this processor */
};

/* Text of types and period that is not UTF-8 counts as empty. `period_type` may be NULL. NULL on failure. */
nf_profile *nf_profile_new(const nf_value_type *types, size_t n_types, const nf_value_type *period_type,
                           int64_t period, nf_moment start, nf_error *error);
void nf_profile_drop(nf_profile *profile);

bool nf_profile_add(nf_profile *profile, const nf_sample *sample, nf_error *error);

/* Bytes of names that are not UTF-8 are replaced. */
bool nf_profile_set_endpoint(nf_profile *profile, uint64_t local_root_span_id, nf_str name, nf_error *error);
bool nf_profile_add_endpoint_count(nf_profile *profile, nf_str name, int64_t value, nf_error *error);
bool nf_profile_add_upscaling_poisson(nf_profile *profile, const size_t *offsets, size_t n_offsets,
                                      nf_str name, nf_str value, size_t sum_offset, size_t count_offset,
                                      uint64_t distance, nf_error *error);
bool nf_profile_add_upscaling_proportional(nf_profile *profile, const size_t *offsets, size_t n_offsets,
                                           nf_str name, nf_str value, uint64_t total_sampled,
                                           uint64_t total_real, nf_error *error);

/* Empties the profile; on failure it is as it was. */
bool nf_profile_reset(nf_profile *profile, nf_moment start, nf_error *error);

/* 0: no budget. */
void nf_profile_set_budget(nf_profile *profile, size_t bytes);

/* What the profile holds, in bytes. */
size_t nf_profile_held(const nf_profile *profile);

typedef struct nf_encoded {
  nf_moment start, end;
  nf_output bytes;
  nf_endpoint_stats *endpoint_stats;
} nf_encoded;

/* Encodes the profile and empties it; on failure it is as it was. `duration` below 0: from its start to
 * `end`. */
bool nf_profile_encode(nf_profile *profile, nf_moment end, int64_t duration, nf_moment next_start,
                       nf_codec_kind codec, nf_encoded *encoded, nf_error *error);

/* ---- between profile.c and its other halves ---- */

/* Part of adding: one function, compiled for different processors. */
size_t nf_write_stack(nf_profile *profile, const nf_sample *sample);
size_t nf_write_stack_avx2(nf_profile *profile, const nf_sample *sample);

bool nf_store_init(nf_store *store, const nf_profile *profile, size_t budget);
void nf_store_deinit(nf_store *store);

/* Tells a failure to reserve as what it was: the budget, or memory. */
bool nf_store_refuse(const nf_store *store, nf_error *error);

#endif
