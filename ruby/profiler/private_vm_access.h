#ifndef NF_PRIVATE_VM_ACCESS_H
#define NF_PRIVATE_VM_ACCESS_H

// Everything that the profiler knows about the inside of the Ruby VM, behind a small interface. Only
// private_vm_access.c includes Ruby's private (MJIT) header; nothing here mentions a private type. Where
// there is no such header of exactly this Ruby, private_vm_access_public.c answers, from public functions
// only.
//
// Rules for all functions, unless their comment says otherwise:
// - the caller holds the GVL and is on the main Ractor;
// - no Ruby object is made, no Ruby method is called, nothing is raised and the GVL is not given up, so that
//   what they hand out stays valid until the caller does one of these things itself.

#ifndef NF_PRIVATE_VM_ACCESS_INSIDE // the private header stands in for ruby.h
#include <ruby.h>
#endif

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// A thread as the VM keeps it. Valid while the thread is alive or its Thread object is marked.
typedef struct nf_vm_thread nf_vm_thread;

// One frame of a stack. The text belongs to Ruby strings (or is static); empty text has length 0, never NULL.
typedef struct nf_vm_frame {
  const char *name; // method that the code belongs to; blocks carry the name of the method that they are in
  size_t name_length;
  const char
      *file; // as `Thread::Backtrace::Location#path` gives it; for native frames: of the nearest Ruby caller
  size_t file_length;
  int line;             // 0 = not known
  bool native;          // a method written in C
  const void *function; // which implements it; NULL: not known
} nf_vm_frame;

// What nf_vm_stack_frames returns when the thread has no Ruby stack (yet).
#define NF_VM_NO_RUBY_STACK (-1)

// To be called once before anything else, on the main Ractor. May raise.
void nf_vm_access_init(void);

// The full version of the Ruby that this file was compiled for, e.g. "3.1.2".
const char *nf_vm_built_for(void);

// Is the VM read by its own structures (the private tier), or only through public functions? The private tier
// can be given up at any time before the first sample; there is no way back. DD_PROFILING_VM_ACCESS=public in
// the environment does without it from the start.
bool nf_vm_private(void);
void nf_vm_use_public_tier(const char *reason); // the VM is not what the private tier was compiled for
bool nf_vm_mismatch(void);                      // that was so
const char *nf_vm_why_public(void);             // NULL: it is private

// What the public tier lacks, depending on the Ruby.
bool nf_vm_sees_other_stacks(void); // or only that of the current thread?
bool nf_vm_knows_gvl_owner(void);   // or does nf_vm_gvl_owner_tid guess?
bool nf_vm_knows_thread_ids(void);  // otherwise a thread's is 0 until it was seen as the current one

// In a forked child, before fork returns; async-signal-safe. Ruby 3.1 goes on to give the one thread that is
// left the kernel id that it had in the parent; from here on we know better.
void nf_vm_after_fork_in_child(void);

// Async-signal-safe, callable from any thread, with or without the GVL: is this a Ruby thread of the main
// Ractor that holds the GVL right now? Ruby's own ruby_thread_has_gvl_p also says yes for threads that have
// lost it.
bool nf_vm_holds_gvl(void);

// Likewise, but where nobody knows who holds the GVL (see nf_vm_knows_gvl_owner): is this a Ruby thread at
// all?
bool nf_vm_may_hold_gvl(void);

// Kernel id of the thread that holds the main Ractor's GVL, 0 = nobody holds it, -1 = changing hands right
// now. For threads without the GVL: takes no lock, so the answer may be out of date at once (and a caller
// must bear a signal reaching the wrong thread), but it never follows a pointer that may have been freed
// meanwhile.
pid_t nf_vm_gvl_owner_tid(void);

// Are we on the main Ractor? (any Ruby thread)
bool nf_vm_on_main_ractor(void);

// To be called where a profile begins. Unlike the others this may call Ruby methods, let other threads run
// and raise whatever the program sends to this thread: not from a postponed job, which would lose that.
void nf_vm_look_at_threads(void);

// Is this thread busy with what we keep of it? What it allocates then is not the program's. (any thread)
bool nf_vm_at_work(void);

// Calls `each` for every live thread of the main Ractor, in the order of Thread.list, or in that in which
// they began. `each` must not run Ruby code.
void nf_vm_each_thread(void (*each)(nf_vm_thread *thread, void *data), void *data);

nf_vm_thread *nf_vm_current_thread(void);

// Raises TypeError when the object is not a Thread. May call its methods, see nf_vm_look_at_threads.
nf_vm_thread *nf_vm_thread_from(VALUE thread);

VALUE nf_vm_thread_object(const nf_vm_thread *thread);
pthread_t nf_vm_thread_pthread(const nf_vm_thread *thread); // 0: not known
pid_t nf_vm_thread_tid(const nf_vm_thread *thread);         // 0 until its native thread runs
bool nf_vm_thread_alive(const nf_vm_thread *thread);
VALUE nf_vm_thread_name(const nf_vm_thread *thread); // String or nil

// The Fiber that the thread runs; nil when there is no object for it (yet), or no way to tell.
VALUE nf_vm_thread_fiber(const nf_vm_thread *thread);

// File (a String that Ruby owns) and line of the block that the thread was started with; false when it was
// started from C.
bool nf_vm_thread_birthplace(const nf_vm_thread *thread, VALUE *file, int *line);

// Fills in up to `limit` frames, innermost first, and sets `*total` to the number of frames that there are in
// all: exactly those that `Thread#backtrace_locations` shows, in the same order. Returns the number filled
// in, 0 for a dead thread, or NF_VM_NO_RUBY_STACK.
int nf_vm_stack_frames(const nf_vm_thread *thread, nf_vm_frame *frames, int limit, int *total);

// Is this thread in the middle of raising an exception?
bool nf_vm_thread_raising(const nf_vm_thread *thread);

// The argument that postponed jobs of ours must be registered with, async-signal-safe. Before 3.3 a job that
// is registered while the VM takes another one off its list can replace the other's argument (Ruby bug
// 19991); the only job with an argument that matters is the VM's deferred finalizer, so we register ours with
// the same argument.
void *nf_vm_postponed_job_argument(void);

#endif
