#ifndef NF_THREAD_CONTEXT_H
#define NF_THREAD_CONTEXT_H

// Samples all threads: how much CPU and wall time each has used since its previous sample, with the labels
// that say which thread it was: Datadog::Profiling::Collectors::ThreadContext.

#include "private_vm_access.h"
#include "ruby_helpers.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct nf_thread_context nf_thread_context;

// Raises TypeError. It lives as long as the object, which keeps its recorder alive too.
nf_thread_context *nf_thread_context_from(VALUE object);

// One sample of every living thread, and a last one that carries what this has cost: it counts for the
// calling thread, with the stack of `overhead_stack` (the profiler's own thread; NULL: no such sample). GVL
// held, main Ractor; allocates no Ruby object, raises not.
bool nf_thread_context_sample(nf_thread_context *context, nf_vm_thread *overhead_stack, nf_failure *failure);

typedef enum nf_allocation_result {
  NF_ALLOCATION_SAMPLED,
  NF_ALLOCATION_OF_UNKNOWN_THREAD, // nothing was recorded; to be made known by nf_thread_context_see_current
  NF_ALLOCATION_FAILED,
} nf_allocation_result;

// Weights above this would let one allocation stand for all that happened in a long time.
#define NF_ALLOCATION_WEIGHT_MAX 10000

// The current thread has allocated `object`, which stands for `weight` allocations; for those above the
// maximum there is a sample without a stack. For use inside of the VM's allocation: no Ruby memory is asked
// for, nothing is raised.
nf_allocation_result nf_thread_context_sample_allocation(nf_thread_context *context, VALUE object,
                                                         uint64_t weight, nf_failure *failure);

// So many allocations passed without a sample that could stand for them. As above.
void nf_thread_context_skip_allocations(nf_thread_context *context, uint64_t count);

// From now on (not any more) the recorder keeps an eye on the objects. Starting may raise.
void nf_thread_context_watch_objects(nf_thread_context *context, bool watch);

// Makes sure that the current thread's allocations can be sampled. May start a GC; raises not.
void nf_thread_context_see_current(nf_thread_context *context);

// The same for all threads whatever they have done since, without overhead: at the end of a profile.
bool nf_thread_context_sample_all(nf_thread_context *context, nf_failure *failure);

// Samples of those threads that the samples before left out, as they had not had the GVL since.
bool nf_thread_context_sample_skipped(nf_thread_context *context, nf_failure *failure);

// A thread has got the GVL after a long wait. GVL held; as above.
void nf_thread_context_sample_after_wait(nf_thread_context *context);

// Watches who waits for the GVL, if that was asked for; GVL held.
void nf_thread_context_watch_gvl(nf_thread_context *context);

// Before sampling begins (again): the time until now belongs to no sample, all that comes belongs to one. GVL
// held.
bool nf_thread_context_begin(nf_thread_context *context, nf_failure *failure);

// Forgets all threads and samples. GVL held.
bool nf_thread_context_reset_after_fork(nf_thread_context *context, nf_failure *failure);

void nf_thread_context_define(VALUE collectors);

#endif
