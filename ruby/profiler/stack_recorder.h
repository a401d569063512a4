#ifndef NF_STACK_RECORDER_H
#define NF_STACK_RECORDER_H

// Collects samples into profiles: Datadog::Profiling::StackRecorder.
//
// There are two profiles. Samples go to the active one. Serializing makes the other one active (with the GVL
// held, so no sample can be half-way) and then encodes the first without the GVL. Samplers therefore never
// wait, and no lock is needed: both the choice and every sample happen under the GVL.
//
// A fork while another thread encodes leaves the child with a torn copy of the inactive profile. The child
// never looks at it: it gets a new one.

#include "ruby_helpers.h"

#include <datadog/profiling.h>

#include <stdbool.h>
#include <stdint.h>

typedef enum nf_value_type {
  NF_VALUE_CPU_TIME,
  NF_VALUE_CPU_SAMPLES,
  NF_VALUE_WALL_TIME,
  NF_VALUE_ALLOC_SAMPLES,
  NF_VALUE_HEAP_LIVE_SAMPLES,
  NF_VALUE_HEAP_LIVE_SIZE,
  NF_VALUE_TIMELINE,
  NF_VALUE_TYPES
} nf_value_type;

// One sample's values by nf_value_type; those that the recorder has not enabled are ignored.
typedef struct nf_sample_values {
  int64_t value[NF_VALUE_TYPES];
} nf_sample_values;

typedef struct nf_stack_recorder nf_stack_recorder;

// Raises TypeError. The recorder lives as long as the object.
nf_stack_recorder *nf_stack_recorder_from(VALUE object);

// GVL held; allocates no Ruby object and does not raise. Text that is not UTF-8 is repaired. `timestamp` 0:
// none. False: the profile does not take this sample (it may be full, or memory is short); that is counted,
// and the next may fit.
bool nf_stack_recorder_record(nf_stack_recorder *recorder, ddog_prof_Slice_Location locations,
                              const nf_sample_values *values, ddog_prof_Slice_Label labels, int64_t timestamp,
                              nf_failure *failure);

// All samples of the active profile with this `local root span id`, earlier and later ones, are of this
// endpoint; the last one told counts. GVL held; allocates no Ruby object and does not raise. Without memory
// it is not kept.
void nf_stack_recorder_set_endpoint(nf_stack_recorder *recorder, uint64_t local_root_span_id,
                                    ddog_CharSlice endpoint);

// From now on (not any more) objects can be tracked. Where the recorder has no values for live objects
// nothing happens. Starting may raise. GVL held.
void nf_stack_recorder_watch_objects(nf_stack_recorder *recorder, bool watch);

// The allocation sample that is recorded next is of this object, which stands for `weight`; from now on it is
// known whether it lives. `klass` is borrowed until then. Object 0: none.
void nf_stack_recorder_track_next(nf_stack_recorder *recorder, VALUE object, uint64_t weight,
                                  ddog_CharSlice klass);

// Drops all samples, and whatever a fork may have torn. GVL held.
bool nf_stack_recorder_reset_after_fork(nf_stack_recorder *recorder, nf_failure *failure);

// Position of a value type by its name ("cpu-time"), NF_VALUE_TYPES if there is none.
nf_value_type nf_value_type_named(const char *name, size_t length);

void nf_stack_recorder_define(VALUE profiling);

#endif
