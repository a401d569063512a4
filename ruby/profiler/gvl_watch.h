#ifndef NF_GVL_WATCH_H
#define NF_GVL_WATCH_H

// Who waits for the GVL, how long, and who has had it since: told by the VM's thread events, from Ruby 3.3 on
// (3.2 has the events, but no place where a thread could keep what they tell).

#include "private_vm_access.h"
#include "ruby_helpers.h"

#include <stdbool.h>
#include <stdint.h>

struct nf_thread_context;

typedef struct nf_gvl_state {
  uint64_t runs;                         // how often the thread has got the GVL
  int64_t waiting_since_ns;              // monotonic; 0: it does not wait
  int64_t wait_start_ns, wait_finish_ns; // of its last long wait; 0: there was none
} nf_gvl_state;

bool nf_gvl_watch_supported(void);

// Once, on the main Ractor. May raise.
void nf_gvl_watch_init(void);

// GVL held. From now on the context is told (nf_thread_context_sample_after_wait, at the next safe point)
// when a thread has waited for as long as that. At most one context at a time.
void nf_gvl_watch_enable(struct nf_thread_context *context, int64_t long_wait_ns);
void nf_gvl_watch_disable(void);

// As nf_gc_hook_forget.
void nf_gvl_watch_forget(struct nf_thread_context *context);

// GVL held. Is it enabled for this context?
bool nf_gvl_watch_enabled(const struct nf_thread_context *context);

// GVL held, enabled.
nf_gvl_state nf_gvl_watch_state_of(const nf_vm_thread *thread);

#endif
