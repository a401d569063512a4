#ifndef NF_STACK_RECORDER_INTERNAL_H
#define NF_STACK_RECORDER_INTERNAL_H

// What stack_recorder.c shares with its test doors only.

#include "stack_recorder.h"

#include "heap_recorder.h"

typedef struct nf_recorder_slot {
  ddog_prof_Profile profile;
  bool usable;
  ddog_Timespec start;
  int64_t started_at_ns; // monotonic: the time of day may be set meanwhile
  uint64_t samples;
} nf_recorder_slot;

struct nf_stack_recorder {
  nf_recorder_slot slots[2];
  int active;
  bool initialized;
  bool serializing; // the inactive slot belongs to a thread without the GVL
  uint64_t fork_generation;
  uint8_t order[NF_VALUE_TYPES]; // nf_value_type at each position of the profile
  uint8_t enabled;
  uint64_t recorded_samples;
  uint64_t repaired_samples; // had text that was not UTF-8
  uint64_t refused_samples;
  char first_refusal[sizeof(((nf_failure *)0)->text)];
  uint64_t serializations, samples_in_last_profile;
  bool heap_enabled;
  nf_heap_recorder heap;
  struct { // belongs to the next allocation sample; 0: none
    VALUE object;
    uint64_t weight;
    ddog_CharSlice klass;
  } allocated;
};

void nf_stack_recorder_define_testing(VALUE klass);

#endif
