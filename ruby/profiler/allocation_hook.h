#ifndef NF_ALLOCATION_HOOK_H
#define NF_ALLOCATION_HOOK_H

// Where the VM tells us of each new object, and where it is decided which to sample. There is one hook in the
// process, and at most one worker that it works for.
//
// The VM calls it in the middle of an allocation. So nothing in it raises, calls a Ruby method or asks Ruby
// for memory (which could start a GC; and during a GC that begins in here the VM would tell nobody of the
// objects that it frees, see heap_recorder.h).

#include "discrete_dynamic_sampler.h"
#include "ruby_helpers.h"
#include "thread_context.h"

#include <stdbool.h>
#include <stdint.h>

// Of one worker; what it does while it is attached.
typedef struct nf_allocation_hook {
  bool enabled;      // does the worker want allocations at all?
  bool dynamic_rate; // else every allocation is sampled
  nf_thread_context *context;
  bool *during_sample; // of the worker: set while it samples
  // Told once when a sample fails for good. Does not raise.
  void (*on_failure)(void *owner, const nf_failure *failure);
  void *owner;

  nf_discrete_sampler sampler;
  struct {
    uint64_t sampled, skipped, during_sample, revived;
    uint64_t time_ns_min, time_ns_max, time_ns_total;
  } stats;
} nf_allocation_hook;

void nf_allocation_hook_reset_stats(nf_allocation_hook *hook);
// Into the worker's stats.
void nf_allocation_hook_stats(const nf_allocation_hook *hook, VALUE hash);

// GVL held, main Ractor. Attaching may raise.
void nf_allocation_hook_define_job(void); // once, before all else; may raise
void nf_allocation_hook_attach(nf_allocation_hook *hook);
void nf_allocation_hook_detach(nf_allocation_hook *hook);
// As `detach`, whosever the hook is.
void nf_allocation_hook_end(void);
// Some Rubies forget all hooks of this kind when a Ractor is collected (Ruby bug 19112). To be called now and
// then while attached, not in the middle of an allocation: tells by the VM's own count of objects whether
// that has happened, and attaches again. (The hooks that others have for such events work again then, too.)
void nf_allocation_hook_revive(nf_allocation_hook *hook);
// The hook's owner is about to be freed.
void nf_allocation_hook_forget(const nf_allocation_hook *hook);
// In a new child of a fork: nobody samples there. Async-signal-safe; the VM's hook takes itself off.
void nf_allocation_hook_forget_after_fork(void);

// Objects that the current native thread has allocated while allocations were counted, or nil when they are
// not.
VALUE nf_allocation_count(void);

// For tests: has the VM our hook? And: make it forget it.
bool nf_allocation_hook_attached(void);
void nf_allocation_hook_lose(void);

#endif
