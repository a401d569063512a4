#ifndef NF_GC_HOOK_H
#define NF_GC_HOOK_H

// Where the VM tells us that garbage collection begins and ends. There is one tracepoint in the process, and
// at most one thread context that it tells.

#include "thread_context.h"

// Makes the tracepoint; once, on the main Ractor. May raise.
void nf_gc_hook_init(void);

// GVL held, main Ractor. Enabling may raise.
void nf_gc_hook_enable(nf_thread_context *context);
void nf_gc_hook_disable(void);

// When a Ractor is collected the VM may forget our tracepoint (Ruby bug 19112): if there were collections
// that nobody told us of, it is enabled again. GVL held; raises not.
void nf_gc_hook_revive(nf_thread_context *context);

// The context is about to be freed. NULL: whatever it is (async-signal-safe, in a forked child: the
// tracepoint stays on until `disable`, and tells nobody).
void nf_gc_hook_forget(nf_thread_context *context);

// For tests: the TracePoint.
VALUE nf_gc_hook_tracepoint(void);

#endif
