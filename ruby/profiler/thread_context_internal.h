#ifndef NF_THREAD_CONTEXT_INTERNAL_H
#define NF_THREAD_CONTEXT_INTERNAL_H

// What the files that make up the thread context share: threads and labels of samples.

#include "thread_context.h"

#include "gc_profiling.h"
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
  nf_epoch_clock epoch;
  nf_gc_tracking gc;
  bool sampling; // a collection within a sample is part of what that sample costs
  uint64_t pass;
  uint64_t fork_generation;
  uint64_t threads_without_memory; // samples that had to be left out
  uint64_t cpu_clock_failures;
};

// thread id, thread name, local root span id, span id
#define NF_THREAD_LABELS_MAX 4

// Before anything else that uses a context: false if it was not initialized; notices a fork.
bool nf_thread_context_ready(nf_thread_context *context, nf_failure *failure);

// What is remembered of a living thread whose native thread runs; made at first sight, which may need memory
// of Ruby and so start a GC. NULL: no memory (counted).
nf_thread_entry *nf_thread_context_entry_of(nf_thread_context *context, nf_vm_thread *vm_thread);

// The same without making one.
nf_thread_entry *nf_thread_context_current_entry(nf_thread_context *context);

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
