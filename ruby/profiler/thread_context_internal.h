#ifndef NF_THREAD_CONTEXT_INTERNAL_H
#define NF_THREAD_CONTEXT_INTERNAL_H

// What the files that make up the thread context share: threads and labels of samples.

#include "thread_context.h"

#include "gc_profiling.h"
#include "gvl_watch.h"
#include "stack_collector.h"
#include "stack_recorder.h"
#include "thread_table.h"
#include "time_helpers.h"
#include "trace_context.h"

struct nf_thread_context {
  VALUE recorder_object;
  nf_stack_recorder *recorder;
  nf_stack_collector *stack; // NULL: not initialized
  nf_thread_table threads;
  nf_vm_thread *main_thread;
  nf_trace_source traces;
  bool timeline_enabled, allocation_type_enabled;
  bool gvl_enabled; // and this Ruby can tell
  nf_epoch_clock epoch;
  nf_gc_tracking gc;
  bool sampling; // a collection within a sample is part of what that sample costs
  uint64_t pass;
  uint64_t fork_generation;
  uint64_t threads_without_memory; // samples that had to be left out
  uint64_t cpu_clock_failures;
  uint64_t threads_skipped, gvl_waits;
};

// One sample of one thread.
typedef struct nf_thread_sample {
  nf_thread_entry *entry;
  const nf_vm_thread *stack_of; // its own, or the profiler's thread: then it is overhead
  bool overhead, waiting_for_gvl;
  int64_t cpu_ns, wall_ns, timestamp;
} nf_thread_sample;

// thread id, thread name, local root span id, span id
#define NF_THREAD_LABELS_MAX 4

// Before anything else that uses a context: false if it was not initialized; notices a fork.
bool nf_thread_context_ready(nf_thread_context *context, nf_failure *failure);

// What is remembered of a living thread whose native thread runs; made at first sight, which may need memory
// of Ruby and so start a GC. NULL: no memory (counted).
nf_thread_entry *nf_thread_context_entry_of(nf_thread_context *context, nf_vm_thread *vm_thread);

// The same without making one.
nf_thread_entry *nf_thread_context_current_entry(nf_thread_context *context);

// One that the recorder refuses is lost, and counted there; sampling goes on.
void nf_thread_context_record(nf_thread_context *context, const nf_thread_sample *sample);

// CPU time of a thread since its previous sample, which from now on is this one.
int64_t nf_thread_context_cpu_since_previous(nf_thread_context *context, nf_thread_entry *entry);

// Nothing has changed since the thread's previous sample: it has not had the GVL. Its time is added up.
bool nf_thread_context_may_skip(nf_thread_context *context, nf_thread_entry *entry, int64_t now);

// If the thread has waited for the GVL since its previous sample: records that, and what came before; its
// previous sample is then one at the end of the wait. Takes what it needs of the CPU time. False: it has not.
bool nf_thread_context_sample_wait(nf_thread_context *context, nf_thread_entry *entry, int64_t *cpu_ns,
                                   int64_t now);

// For the sample of something that ended at this monotonic time; 0 (none) without a timeline.
int64_t nf_thread_context_timestamp(nf_thread_context *context, int64_t monotonic_ns);

// The labels that every sample of a thread carries: fills in at most NF_THREAD_LABELS_MAX and returns their
// number. They borrow from the entry and from Ruby objects: to be recorded at once. The endpoint is no label,
// the recorder is told of it.
size_t nf_thread_context_labels(nf_thread_context *context, const nf_thread_entry *entry,
                                ddog_prof_Label *labels);

// Test doors of allocation samples.
void nf_thread_context_define_allocation_testing(VALUE testing);

static inline ddog_prof_Label nf_text_label(ddog_CharSlice key, ddog_CharSlice text) {
  return (ddog_prof_Label){.key = key, .str = text, .num_unit = NF_SLICE("")};
}

static inline ddog_prof_Label nf_number_label(ddog_CharSlice key, int64_t number) {
  return (ddog_prof_Label){.key = key, .str = NF_SLICE(""), .num = number, .num_unit = NF_SLICE("")};
}

#endif
