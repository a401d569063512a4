#ifndef NF_WORKER_INTERNAL_H
#define NF_WORKER_INTERNAL_H

// What the files that make up the worker share: worker.c (the thread and the Ruby class), worker_sample.c,
// and the test doors.

#include "allocation_hook.h"
#include "dynamic_sampling_rate.h"
#include "idle_sampling_helper.h"
#include "ruby_helpers.h"
#include "thread_context.h"
#include "worker_stats.h"

#include <ruby.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

typedef struct nf_worker nf_worker;

struct nf_worker {
  VALUE self, thread_context_object, idle_helper_object;
  VALUE owner_thread; // runs the loop; Qnil when none does
  VALUE stop_thread;  // whose loop was told to end, perhaps before it began
  nf_thread_context *thread_context;
  nf_idle_helper *idle_helper;
  nf_vm_thread *owner;
  bool initialized, no_signals, dynamic_rate_enabled, gc_profiling_enabled;
  bool reduced; // hooks that it wants had to end, see ractor_guard.h
  int64_t interval_ns;
  uint64_t fork_generation;

  nf_sampling_rate rate;
  nf_allocation_hook allocations;
  bool during_sample;
  _Atomic bool failed;
  nf_failure failure;

  // The loop's sleep.
  pthread_mutex_t lock;
  pthread_cond_t wake;
  bool stop_requested, interrupted;

  nf_worker_stats stats;
};

// The worker that samples, or NULL. See worker.h for who may look at it.
nf_worker *nf_worker_active(void);

void nf_worker_handle_signal(int signal, siginfo_t *info, void *context); // the handler of SIGPROF
void nf_worker_sample_job(void *argument);                                // the postponed job
void nf_worker_define_job(void);                                          // once; may raise
bool nf_worker_sample_waits(void); // was one asked for that has not been taken yet?
// For threads without the GVL: samples as if a signal had come.
void nf_worker_grab_gvl_and_sample(void);
bool nf_worker_signal_gvl_owner(void); // false: there is none, as far as anybody can tell
// The same when nobody was seen with the GVL; for the idle helper's thread.
void nf_worker_sample_idle_program(void);
uint64_t nf_worker_signals_on_wrong_thread(void);
// Whom the signal handler asks once for each tick that has met a thread without the GVL; NULL: nobody.
void nf_worker_set_second_chance(nf_idle_helper *helper);
void nf_worker_allow_second_chance(void);

// Ends the loop, which raises this on its own thread, never on the application's. Does not raise itself.
void nf_worker_fail_with(void *worker, const nf_failure *failure);

VALUE nf_worker_running_p(VALUE self, VALUE object);

// What a sample does that cannot be taken: the loop ends and raises this.
void nf_worker_fail(VALUE object, const char *text);

// Defines CpuAndWallTimeWorker::Testing.
void nf_worker_define_testing(VALUE klass);

#endif
