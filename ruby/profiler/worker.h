#ifndef NF_WORKER_H
#define NF_WORKER_H

// Decides when to sample: Datadog::Profiling::Collectors::CpuAndWallTimeWorker.
//
// A thread of ours wakes up every 10 ms, without the GVL, and sends SIGPROF to the thread that holds it. The
// signal handler does nothing but ask the VM for a postponed job, which the VM runs on that thread at its
// next safe point: there all threads are sampled. When nobody holds the GVL the idle helper takes it and
// pretends that a signal came; so it does for a signal that meets a thread which has just given up the GVL.
// Without signals (an option, for programs that cannot bear interrupted system calls) our thread takes the
// GVL itself.
//
// The worker that samples is in one global pointer, which only changes under the GVL. The signal handler
// looks at it only after it has made sure that its thread holds the GVL: what it points to cannot go away
// meanwhile.

#include <ruby.h>

// Async-signal-safe: in a forked child nothing samples until it is started again.
void nf_worker_forget_after_fork(void);

// Ends what the VM tells us of objects and collections, for good or until a worker starts again (see
// ractor_guard.h); CPU and wall time go on. GVL held, main Ractor, outside of such a hook.
void nf_worker_end_object_hooks(void);

void nf_worker_define(VALUE collectors);

#endif
