#ifndef NF_SAMPLE_ADD_H
#define NF_SAMPLE_ADD_H

// Adds a sample to a profile, whatever its text is.

#include "ruby_helpers.h"

#include <datadog/profiling.h>

#include <stdbool.h>
#include <stdint.h>

typedef enum nf_sample_add_result {
  NF_SAMPLE_ADDED,
  NF_SAMPLE_ADDED_REPAIRED, // it had text that was not UTF-8
  NF_SAMPLE_REFUSED,
} nf_sample_add_result;

// Whoever owns the profile may call it; the GVL is not needed. Uses the plain heap, which cannot start a GC.
nf_sample_add_result nf_sample_add(ddog_prof_Profile *profile, ddog_prof_Sample sample, int64_t timestamp,
                                   nf_failure *failure);

#endif
