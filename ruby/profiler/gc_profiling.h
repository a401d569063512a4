#ifndef NF_GC_PROFILING_H
#define NF_GC_PROFILING_H

// What garbage collection costs: it is taken off the CPU time of the threads that had to do it, and recorded
// as samples of a thread of its own, `GC`.
//
// A collection may be done in tens of thousands of small steps, so steps are added up, and become a sample
// only after a major collection or when 10 ms have passed since the last one.

#include "ruby_helpers.h"

#include <stdbool.h>
#include <stdint.h>

struct nf_thread_context;

typedef struct nf_gc_tracking {
  int64_t accumulated_cpu_ns, accumulated_wall_ns;
  int64_t wall_at_previous_gc_ns;     // its end; or NF_NOT_KNOWN: nothing has been added up
  int64_t wall_at_last_flushed_gc_ns; // or NF_NOT_KNOWN
  uint64_t samples, missed;           // `missed`: on threads that no sample has seen yet
} nf_gc_tracking;

// Interns names, and lets Ruby do its part, so that nothing has to be made later. May raise.
void nf_gc_profiling_init(void);

void nf_gc_tracking_reset(nf_gc_tracking *tracking);

// From within the VM's collector, on the thread that runs it, GVL held: read clocks and add, no more. The
// second answers whether it is time for a sample.
void nf_gc_profiling_on_start(struct nf_thread_context *context);
bool nf_gc_profiling_on_finish(struct nf_thread_context *context);

// Outside of the collector, GVL held: a start that has no end yet will not see it, as the VM has forgotten to
// tell us in between (see nf_gc_hook_revive). The thread's CPU time goes on.
void nf_gc_profiling_forget_starts(struct nf_thread_context *context);

// One sample with all that was added up; false if there is nothing. GVL held, outside of the collector; makes
// no Ruby object, raises not.
bool nf_gc_profiling_sample(struct nf_thread_context *context, nf_failure *failure);

#endif
