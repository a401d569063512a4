#include "worker.h"

#include "allocation_hook.h"
#include "dynamic_sampling_rate.h"
#include "fork_watch.h"
#include "gc_hook.h"
#include "gvl_watch.h"
#include "heap_hook.h"
#include "idle_sampling_helper.h"
#include "private_vm_access.h"
#include "ractor_guard.h"
#include "ruby_helpers.h"
#include "signal_setup.h"
#include "thread_context.h"
#include "time_helpers.h"
#include "worker_internal.h"
#include "worker_stats.h"

#include <ruby/thread.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define DEFAULT_INTERVAL_NS (10 * NF_MILLISECOND_NS)
#define SHORTEST_INTERVAL_NS NF_MILLISECOND_NS
#define LONGEST_INTERVAL_NS NF_SECOND_NS

static nf_worker *_Atomic active_worker; // NULL: nobody samples

static void set_active(nf_worker *worker) {
  atomic_store_explicit(&active_worker, worker, memory_order_relaxed);
  nf_worker_set_second_chance(worker == NULL ? NULL : worker->idle_helper);
}

void nf_worker_forget_after_fork(void) {
  set_active(NULL);
  nf_allocation_hook_forget_after_fork();
}

nf_worker *nf_worker_active(void) { return atomic_load_explicit(&active_worker, memory_order_relaxed); }

static nf_worker *active(void) { return nf_worker_active(); }

// --- memory ---

static void worker_mark(void *data) {
  nf_worker *worker = data;
  rb_gc_mark_movable(worker->self);
  rb_gc_mark_movable(worker->thread_context_object);
  rb_gc_mark_movable(worker->idle_helper_object);
  rb_gc_mark(worker->owner_thread); // `owner` may be its address
  rb_gc_mark_movable(worker->stop_thread);
}

static void worker_compact(void *data) {
  nf_worker *worker = data;
  worker->self = rb_gc_location(worker->self);
  worker->thread_context_object = rb_gc_location(worker->thread_context_object);
  worker->idle_helper_object = rb_gc_location(worker->idle_helper_object);
  worker->stop_thread = rb_gc_location(worker->stop_thread);
}

static void worker_free(void *data) {
  nf_worker *expected = data; // at the end of the process objects are freed in any order
  atomic_compare_exchange_strong(&active_worker, &expected, NULL);
  nf_allocation_hook_forget(&((nf_worker *)data)->allocations);
  ruby_xfree(data);
}

static size_t worker_size(const void *data) {
  (void)data;
  return sizeof(nf_worker);
}

static const rb_data_type_t worker_type = {
    .wrap_struct_name = "Datadog::Profiling::Collectors::CpuAndWallTimeWorker",
    .function = {.dmark = worker_mark,
                 .dfree = worker_free,
                 .dsize = worker_size,
                 .dcompact = worker_compact},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static void set_up_sleep(nf_worker *worker) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes); // none of these can fail with a clock that exists
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&worker->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&worker->lock, NULL);
}

static void reset_stats(nf_worker *worker) {
  nf_worker_stats_reset(&worker->stats);
  nf_allocation_hook_reset_stats(&worker->allocations);
  worker->stats.wrong_thread_before = nf_worker_signals_on_wrong_thread();
}

static VALUE worker_allocate(VALUE klass) {
  nf_worker *worker;
  VALUE object = TypedData_Make_Struct(klass, nf_worker, &worker_type, worker);
  worker->self = object;
  worker->thread_context_object = worker->idle_helper_object = worker->owner_thread = worker->stop_thread =
      Qnil;
  worker->interval_ns = DEFAULT_INTERVAL_NS;
  worker->fork_generation = nf_fork_watch_generation();
  set_up_sleep(worker);
  reset_stats(worker);
  nf_sampling_rate_init(&worker->rate, 2.0);
  return object;
}

static nf_worker *worker_from(VALUE object) {
  nf_worker *worker;
  TypedData_Get_Struct(object, nf_worker, &worker_type, worker);
  return worker;
}

// --- stopping ---

static void request_stop(nf_worker *worker) {
  pthread_mutex_lock(&worker->lock);
  worker->stop_requested = true;
  pthread_cond_signal(&worker->wake);
  pthread_mutex_unlock(&worker->lock);
}

void nf_worker_fail_with(void *data, const nf_failure *failure) {
  nf_worker *worker = data;
  worker->failure = *failure;
  worker->failed = true;
  request_stop(worker);
}

static void interrupt_loop(void *data) {
  nf_worker *worker = data;
  pthread_mutex_lock(&worker->lock);
  worker->interrupted = true;
  pthread_cond_signal(&worker->wake);
  pthread_mutex_unlock(&worker->lock);
}

// --- the loop: no GVL ---

static void trigger_sample(nf_worker *worker) {
  nf_worker_count(&worker->stats.trigger_sample_attempts);
  if (worker->no_signals) {
    nf_worker_grab_gvl_and_sample();
    return;
  }
  if (nf_signal_current_owner(nf_worker_handle_signal) != NF_SIGNAL_OWNER_PROFILING) {
    // Our signals would reach a handler that does not know what to do with them.
    nf_failure failure;
    nf_failure_set(&failure, "another library in this process has replaced the SIGPROF signal handler");
    nf_worker_fail_with(worker, &failure);
    return;
  }
  nf_worker_allow_second_chance();
  // Where the owner is a guess, the one that was asked before and has not sampled since may be waiting for
  // something.
  bool in_vain = !nf_vm_knows_gvl_owner() && nf_worker_sample_waits();
  if (nf_worker_signal_gvl_owner() && !in_vain) return;
  nf_worker_count(&worker->stats.trigger_simulated_signal_delivery_attempts);
  nf_idle_helper_request(worker->idle_helper, nf_worker_sample_idle_program);
}

static uint32_t next_random(uint32_t *state) { // xorshift
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

static void *trigger_samples(void *data) {
  nf_worker *worker = data;
  int64_t beat = nf_time_monotonic_ns();
  uint32_t random = (uint32_t)beat | 1;
  for (;;) {
    trigger_sample(worker); // no lock is held: taking the GVL may end in a jump over this frame

    // The beat does not drift. Each tick comes anywhere in its interval, so that a program that does its
    // work to a beat of its own is not always met at the same place.
    int64_t now = nf_time_monotonic_ns();
    beat += worker->interval_ns;
    if (beat < now) beat = now; // late by more than a whole interval: do not catch up in a burst
    int64_t until = beat + (int64_t)(next_random(&random) % (uint32_t)worker->interval_ns);
    if (worker->dynamic_rate_enabled) {
      int64_t due = now + nf_sampling_rate_sleep_ns(&worker->rate, now);
      if (due > until) until = beat = due;
    }
    struct timespec deadline = nf_time_to_timespec(until);
    pthread_mutex_lock(&worker->lock);
    int result = 0;
    while (!worker->stop_requested && !worker->interrupted && result == 0) {
      result = pthread_cond_timedwait(&worker->wake, &worker->lock, &deadline);
    }
    bool done = worker->stop_requested || worker->interrupted || (result != 0 && result != ETIMEDOUT);
    pthread_mutex_unlock(&worker->lock);
    if (done) return NULL;
  }
}

static bool get_ready(nf_worker *worker) {
  pthread_mutex_lock(&worker->lock);
  worker->interrupted = false;
  bool go_on = !worker->stop_requested;
  pthread_mutex_unlock(&worker->lock);
  return go_on;
}

static bool wants_object_hooks(const nf_worker *worker) {
  return worker->gc_profiling_enabled || worker->allocations.enabled;
}

void nf_worker_end_object_hooks(void) {
  nf_worker *worker = active();
  if (worker != NULL) {
    worker->reduced = wants_object_hooks(worker);
    nf_allocation_hook_detach(&worker->allocations);
  }
  nf_gc_hook_disable();
  // In a forked child they may be the parent's.
  nf_allocation_hook_end();
  nf_heap_hook_end();
}

static VALUE run_loop(VALUE data) {
  nf_worker *worker = (nf_worker *)data;
  nf_thread_context_watch_gvl(worker->thread_context);
  worker->reduced = nf_ractor_guard_closed() && wants_object_hooks(worker);
  if (!worker->reduced) {
    if (worker->gc_profiling_enabled) nf_gc_hook_enable(worker->thread_context);
    nf_allocation_hook_attach(&worker->allocations);
  }
  // Comes back for every interrupt that the VM wants to be looked at; those that end the thread are raised by
  // it.
  while (get_ready(worker)) rb_thread_call_without_gvl(trigger_samples, worker, interrupt_loop, worker);
  return Qnil;
}

// --- starting ---

static bool reset_all(nf_worker *worker, nf_failure *failure) {
  worker->fork_generation = nf_fork_watch_generation();
  worker->during_sample = false;
  worker->failed = false;
  set_up_sleep(worker);
  reset_stats(worker);
  nf_sampling_rate_reset(&worker->rate);
  return nf_thread_context_reset_after_fork(worker->thread_context, failure);
}

typedef struct loop_run {
  nf_worker *worker;
  bool sigprof_was_blocked;
} loop_run;

static VALUE end_loop(VALUE data) {
  loop_run *run = (loop_run *)data;
  nf_worker *worker = run->worker;
  if (active() == worker) {
    set_active(NULL);
    nf_gc_hook_disable();
    nf_failure failure; // a sample that is refused is counted by its recorder
    nf_thread_context_sample_skipped(worker->thread_context, &failure);
    nf_gvl_watch_disable();
  }
  nf_allocation_hook_detach(&worker->allocations);
  nf_signal_leave_empty(nf_worker_handle_signal);
  if (!run->sigprof_was_blocked)
    nf_signal_set_blocked(false); // Ruby may use this native thread for another thread
  worker->owner_thread = Qnil;
  worker->owner = NULL;
  return Qnil;
}

// When no worker will run any more.
static VALUE native_give_back_signal(VALUE self) {
  if (active() == NULL) nf_signal_give_back(nf_worker_handle_signal);
  return self;
}

static VALUE native_sampling_loop(VALUE self, VALUE object) {
  (void)self;
  nf_worker *worker = worker_from(object);
  if (!worker->initialized) rb_raise(rb_eRuntimeError, "the CpuAndWallTimeWorker was not initialized");
  if (!nf_vm_on_main_ractor())
    rb_raise(rb_eRuntimeError, "profiling can only be started from the main Ractor");
  nf_vm_look_at_threads();
  VALUE current = rb_thread_current();
  if (active() != NULL)
    rb_raise(rb_eRuntimeError, "another instance of CpuAndWallTimeWorker is already running");
  if (worker->stop_thread == current) return Qnil; // told to stop before it came here

  nf_failure failure;
  if (worker->fork_generation != nf_fork_watch_generation() && !reset_all(worker, &failure)) {
    rb_raise(rb_eRuntimeError, "%s", failure.text);
  }
  if (!nf_thread_context_begin(worker->thread_context, &failure))
    rb_raise(rb_eRuntimeError, "%s", failure.text);
  worker->failed = worker->during_sample = false;
  worker->stop_requested = worker->interrupted = false;
  nf_sampling_rate_reset(&worker->rate);
  if (!worker->no_signals && !nf_signal_install(nf_worker_handle_signal, &failure)) {
    rb_raise(rb_eRuntimeError, "%s", failure.text);
  }
  loop_run run = {.worker = worker, .sigprof_was_blocked = nf_signal_set_blocked(true)};
  worker->owner_thread = current;
  worker->owner = nf_vm_current_thread();
  set_active(worker);
  rb_ensure(run_loop, (VALUE)worker, end_loop, (VALUE)&run);
  RB_GC_GUARD(object);
  if (worker->failed) rb_raise(rb_eRuntimeError, "%s", worker->failure.text);
  return Qnil;
}

static VALUE native_stop(VALUE self, VALUE object, VALUE worker_thread) {
  (void)self;
  nf_worker *worker = worker_from(object);
  worker->stop_thread = worker_thread;
  if (worker->fork_generation == nf_fork_watch_generation()) request_stop(worker);
  return Qtrue;
}

static VALUE native_initialize(VALUE self, VALUE object, VALUE thread_context_object,
                               VALUE gc_profiling_enabled, VALUE idle_helper_object,
                               VALUE no_signals_workaround_enabled, VALUE overhead_target_percentage,
                               VALUE dynamic_sampling_rate_enabled, VALUE allocation_profiling_enabled) {
  (void)self;
  nf_worker *worker = worker_from(object);
  nf_thread_context *thread_context = nf_thread_context_from(thread_context_object);
  nf_idle_helper *idle_helper = nf_idle_helper_from(idle_helper_object);
  bool gc = NF_ENFORCE_BOOLEAN(gc_profiling_enabled),
       allocations = NF_ENFORCE_BOOLEAN(allocation_profiling_enabled);
  bool no_signals = NF_ENFORCE_BOOLEAN(no_signals_workaround_enabled);
  bool dynamic_rate = NF_ENFORCE_BOOLEAN(dynamic_sampling_rate_enabled);
  if (!RB_FLOAT_TYPE_P(overhead_target_percentage) && !RB_INTEGER_TYPE_P(overhead_target_percentage)) {
    NF_ENFORCE_TYPE(overhead_target_percentage, T_FLOAT);
  }
  double overhead = NUM2DBL(overhead_target_percentage);
  if (!(overhead > 0 && overhead <= 100)) {
    rb_raise(rb_eArgError, "the overhead target must be more than 0 and at most 100 percent (got %g)",
             overhead);
  }
  if (worker->initialized) rb_raise(rb_eRuntimeError, "the CpuAndWallTimeWorker is initialized already");
  worker->thread_context_object = thread_context_object;
  worker->idle_helper_object = idle_helper_object;
  worker->thread_context = thread_context;
  worker->idle_helper = idle_helper;
  worker->no_signals = no_signals;
  worker->dynamic_rate_enabled = dynamic_rate;
  worker->gc_profiling_enabled = gc;
  double share = allocations ? overhead / 2 : overhead; // of each of the two
  nf_sampling_rate_init(&worker->rate, share);
  worker->allocations.enabled = allocations;
  worker->allocations.dynamic_rate = dynamic_rate;
  worker->allocations.context = thread_context;
  worker->allocations.during_sample = &worker->during_sample;
  worker->allocations.on_failure = nf_worker_fail_with;
  worker->allocations.owner = worker;
  nf_discrete_sampler_init(&worker->allocations.sampler, share, nf_time_monotonic_ns());
  worker->initialized = true;
  return Qtrue;
}

static VALUE native_set_interval(VALUE self, VALUE object, VALUE nanoseconds) {
  (void)self;
  nf_worker *worker = worker_from(object);
  int64_t interval = NUM2LL(nanoseconds);
  if (interval < SHORTEST_INTERVAL_NS || interval > LONGEST_INTERVAL_NS) {
    rb_raise(rb_eArgError, "the sampling interval must be between 1 millisecond and 1 second");
  }
  worker->interval_ns = interval;
  return Qtrue;
}

static VALUE native_reset_after_fork(VALUE self, VALUE object) {
  (void)self;
  nf_worker *worker = worker_from(object);
  if (!worker->initialized) return Qtrue;
  if (active() == worker)
    rb_raise(rb_eRuntimeError, "the worker is running: this is not a new child of a fork");
  if (active() == NULL) { // the parent's are still on
    nf_gc_hook_disable();
    nf_gvl_watch_disable();
  }
  nf_failure failure;
  if (!reset_all(worker, &failure)) rb_raise(rb_eRuntimeError, "%s", failure.text);
  return Qtrue;
}

static uint64_t wrong_thread_count(const nf_worker *worker) {
  return nf_worker_signals_on_wrong_thread() - worker->stats.wrong_thread_before;
}

void nf_worker_fail(VALUE object, const char *text) {
  nf_failure failure;
  nf_failure_set(&failure, "%s", text);
  nf_worker_fail_with(worker_from(object), &failure);
}

static VALUE native_stats(VALUE self, VALUE object) {
  (void)self;
  nf_worker *worker = worker_from(object);
  VALUE stats = nf_worker_stats_to_hash(&worker->stats, wrong_thread_count(worker));
  nf_allocation_hook_stats(&worker->allocations, stats);
  return stats;
}

static VALUE native_stats_reset_not_thread_safe(VALUE self, VALUE object) {
  (void)self;
  reset_stats(worker_from(object));
  return Qtrue;
}

static VALUE native_allocation_count(VALUE self) {
  (void)self;
  return nf_allocation_count();
}

// Have object and collection hooks given way to Ractors in the current or last run?
static VALUE native_reduced_p(VALUE self, VALUE object) {
  (void)self;
  return worker_from(object)->reduced ? Qtrue : Qfalse;
}

VALUE nf_worker_running_p(VALUE self, VALUE object) {
  (void)self;
  return active() == worker_from(object) ? Qtrue : Qfalse;
}

void nf_worker_define(VALUE collectors) {
  nf_worker_define_job();
  nf_allocation_hook_define_job();
  VALUE klass = rb_define_class_under(collectors, "CpuAndWallTimeWorker", rb_cObject);
  rb_define_alloc_func(klass, worker_allocate);
  rb_define_singleton_method(klass, "_native_initialize", native_initialize, 8);
  rb_define_singleton_method(klass, "_native_set_interval", native_set_interval, 2);
  rb_define_singleton_method(klass, "_native_sampling_loop", native_sampling_loop, 1);
  rb_define_singleton_method(klass, "_native_running?", nf_worker_running_p, 1);
  rb_define_singleton_method(klass, "_native_reduced?", native_reduced_p, 1);
  rb_define_singleton_method(klass, "_native_stop", native_stop, 2);
  rb_define_singleton_method(klass, "_native_reset_after_fork", native_reset_after_fork, 1);
  rb_define_singleton_method(klass, "_native_stats", native_stats, 1);
  rb_define_singleton_method(klass, "_native_stats_reset_not_thread_safe", native_stats_reset_not_thread_safe,
                             1);
  rb_define_singleton_method(klass, "_native_allocation_count", native_allocation_count, 0);
  rb_define_singleton_method(klass, "_native_give_back_signal", native_give_back_signal, 0);
  nf_worker_define_testing(klass);
}
