#ifndef NF_STACK_COLLECTOR_H
#define NF_STACK_COLLECTOR_H

// Turns a thread's stack into the locations of a sample, and tells by the innermost frame what an idle thread
// waits for: Datadog::Profiling::Collectors::Stack.

#include "private_vm_access.h"
#include "ruby_helpers.h"
#include "stack_recorder.h"

#include <stdbool.h>

#define NF_MAX_FRAMES_LOWEST 5
#define NF_MAX_FRAMES_HIGHEST 10000

// A state that no stack can tell.
#define NF_STATE_WAITING_FOR_GVL NF_SLICE("waiting for gvl")

typedef struct nf_stack_collector nf_stack_collector; // the buffers of one sampler

// NULL: no memory. `max_frames` is within the limits above. `native_filenames`: methods written in C show the
// library that they are in, and not file and line of their caller.
nf_stack_collector *nf_stack_collector_new(int max_frames, bool native_filenames);
void nf_stack_collector_drop(nf_stack_collector *collector);
size_t nf_stack_collector_size(const nf_stack_collector *collector);

// Records one sample of the thread with these values and labels. `state` is the label among them whose text
// this function decides, unless it is NF_STATE_WAITING_FOR_GVL already; samples that count as CPU or wall
// samples must have one. A stack that is too deep ends in a location that says how many frames were left out,
// a dead thread has no locations. `timestamp` 0: none. GVL held; makes no Ruby object, raises not.
bool nf_stack_collector_sample(nf_stack_collector *collector, const nf_vm_thread *thread,
                               nf_stack_recorder *recorder, const nf_sample_values *values,
                               ddog_prof_Label *labels, size_t label_count, ddog_prof_Label *state,
                               int64_t timestamp, nf_failure *failure);

// The same for a sample that has no stack, only a text in the place of a file name ("Garbage Collection").
bool nf_stack_collector_sample_text(nf_stack_collector *collector, ddog_CharSlice text,
                                    nf_stack_recorder *recorder, const nf_sample_values *values,
                                    ddog_prof_Label *labels, size_t label_count, int64_t timestamp,
                                    nf_failure *failure);

// Raises ArgumentError when it is outside the limits.
int nf_stack_collector_check_max_frames(VALUE max_frames);

void nf_stack_collector_define(VALUE collectors);

#endif
