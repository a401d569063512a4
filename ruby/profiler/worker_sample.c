// The worker's sample: from the signal to the postponed job that takes it.

#include "worker_internal.h"

#include "clock_id.h"
#include "postponed_job.h"
#include "private_vm_access.h"
#include "signal_setup.h"
#include "time_helpers.h"

#include <ruby/debug.h>
#include <ruby/thread.h>

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

// Counted by threads that must not look at a worker.
static _Atomic uint64_t signals_on_wrong_thread;

// Is a sample asked for that the VM has not come to yet?
static _Atomic bool sample_waits;

bool nf_worker_sample_waits(void) { return atomic_load_explicit(&sample_waits, memory_order_relaxed); }

// Who tries again when a signal has reached a thread that has just given up the GVL, once for each tick.
// Without that a program that gives it up all the time would be sampled less while it does so.
static nf_idle_helper *_Atomic second_chance_helper;
static _Atomic bool second_chance;

void nf_worker_set_second_chance(nf_idle_helper *helper) { atomic_store(&second_chance_helper, helper); }

void nf_worker_allow_second_chance(void) {
  atomic_store_explicit(&second_chance, true, memory_order_relaxed);
}

static void take_second_chance(void) {
  nf_idle_helper *helper = atomic_load(&second_chance_helper);
  if (helper == NULL || !atomic_exchange_explicit(&second_chance, false, memory_order_relaxed)) return;
  if (!nf_idle_helper_request(helper, nf_worker_sample_idle_program)) nf_worker_allow_second_chance();
}

uint64_t nf_worker_signals_on_wrong_thread(void) {
  return atomic_load_explicit(&signals_on_wrong_thread, memory_order_relaxed);
}

// What the pacing is told: CPU time, so that a sample in whose midst the machine ran something else is not
// held against sampling. Where that is not known, wall time.
static int64_t cost(int64_t wall_ns, bool cpu_known, int64_t cpu_ns) {
  return cpu_known && cpu_ns >= 0 && cpu_ns < wall_ns ? cpu_ns : wall_ns;
}

static void take_sample(nf_worker *worker) {
  nf_allocation_hook_revive(&worker->allocations);
  int64_t start = nf_time_monotonic_ns();
  if (worker->dynamic_rate_enabled && !nf_sampling_rate_due(&worker->rate, start)) {
    worker->stats.cpu_skipped++;
    return;
  }
  nf_cpu_clock clock = nf_cpu_clock_of(nf_vm_current_thread());
  int64_t cpu_start = 0, cpu_finish = 0;
  bool cpu_known = nf_cpu_clock_read(clock, &cpu_start);
  worker->during_sample = true;
  nf_failure failure;
  bool ok = nf_thread_context_sample(worker->thread_context, worker->owner, &failure);
  worker->during_sample = false;

  int64_t finish = nf_time_monotonic_ns();
  int64_t took = finish > start ? finish - start : 0;
  cpu_known = cpu_known && nf_cpu_clock_read(clock, &cpu_finish);
  nf_sampling_rate_after_sample(&worker->rate, finish, cost(took, cpu_known, cpu_finish - cpu_start));
  nf_worker_stats_add_sample(&worker->stats, (uint64_t)took);
  if (!ok) nf_worker_fail_with(worker, &failure);
}

// Runs on whatever thread the VM has at hand, with the GVL held.
void nf_worker_sample_job(void *argument) {
  (void)argument;
  int saved_errno = errno;
  atomic_store_explicit(&sample_waits, false, memory_order_relaxed);
  // The signal may be long past: other Ractors never see a worker, and this one may have stopped.
  nf_worker *worker = nf_vm_on_main_ractor() ? nf_worker_active() : NULL;
  if (worker != NULL && !worker->during_sample && !worker->failed) take_sample(worker);
  errno = saved_errno;
}

static nf_postponed_job sample_job;

void nf_worker_define_job(void) { nf_postponed_job_define(&sample_job, nf_worker_sample_job); }

static void enqueue_sample(nf_worker *worker) {
  nf_worker_count(&worker->stats.signal_handler_enqueued_sample);
  atomic_store_explicit(&sample_waits, true, memory_order_relaxed);
  // At most one of these jobs is ever waiting, however long the VM takes to get to it.
  switch (nf_postponed_job_trigger(&sample_job)) {
  case NF_JOB_FULL:
    nf_worker_count(&worker->stats.postponed_job_full);
    break;
  case NF_JOB_TRIGGERED:
    nf_worker_count(&worker->stats.postponed_job_success);
    break;
  case NF_JOB_WAITS_ALREADY:
    nf_worker_count(&worker->stats.postponed_job_skipped_already_existed);
    break;
  default:
    nf_worker_count(&worker->stats.postponed_job_unknown_result);
  }
}

// Async-signal-safe. May run on any thread of the process: Ruby threads without the GVL, threads of other
// libraries, threads of other Ractors. These must not see anything of ours that ever goes away.
void nf_worker_handle_signal(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  (void)context;
  int saved_errno = errno;
  if (!nf_vm_may_hold_gvl()) {
    atomic_fetch_add_explicit(&signals_on_wrong_thread, 1, memory_order_relaxed);
    take_second_chance();
  } else {
    nf_worker *worker = nf_worker_active();
    if (worker != NULL) enqueue_sample(worker);
  }
  errno = saved_errno;
}

// With the GVL, when no signal could be sent. The job is run before the GVL is given up again.
static void *simulate_signal(void *data) {
  (void)data;
  nf_worker *worker = nf_vm_may_hold_gvl() ? nf_worker_active() : NULL;
  if (worker == NULL) return NULL; // stopped meanwhile
  nf_worker_count(&worker->stats.simulated_signal_delivery);
  enqueue_sample(worker);
  return NULL;
}

void nf_worker_grab_gvl_and_sample(void) { rb_thread_call_with_gvl(simulate_signal, NULL); }

// By kernel id and only within this process: at worst a thread that does not hold the GVL any more sees a
// signal that its handler ignores. (pthread_kill would need a thread that is sure to exist.)
bool nf_worker_signal_gvl_owner(void) {
  pid_t owner = nf_vm_gvl_owner_tid();
  return owner > 0 && syscall(SYS_tgkill, getpid(), owner, SIGPROF) == 0;
}

// The helper's thread takes a moment to wake up. If a thread has the GVL by then, that one gets the signal:
// to wait until it gives up the GVL may take a tenth of a second and would show what is done by then. A
// program that gives it up often, and for microseconds, would hardly be sampled while it does so.
void nf_worker_sample_idle_program(void) {
  bool may_signal = nf_vm_knows_gvl_owner() &&
                    nf_signal_current_owner(nf_worker_handle_signal) == NF_SIGNAL_OWNER_PROFILING;
  if (!may_signal || !nf_worker_signal_gvl_owner()) nf_worker_grab_gvl_and_sample();
}
