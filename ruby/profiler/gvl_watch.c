#include "gvl_watch.h"

#include "thread_context.h"
#include "time_helpers.h"

#include <ruby/debug.h>
#include <ruby/thread.h>

#include <errno.h>
#include <stdatomic.h>

#ifdef RB_INTERNAL_THREAD_SPECIFIC_KEY_MAX

// Each thread keeps these numbers in places of its own, which only its own events write to: some of these
// come without the GVL, so nothing of ours may be looked at that could be freed meanwhile.
static rb_internal_thread_specific_key_t key_runs, key_waiting_since, key_wait_start, key_wait_finish;
static bool initialized;
static rb_internal_thread_event_hook_t *hook; // NULL: not enabled
static rb_postponed_job_handle_t job;

static nf_thread_context *_Atomic listener;
static _Atomic int64_t long_wait;
static int64_t enabled_at; // what is older comes from an earlier run, in which some events were missed

static int64_t get(VALUE thread, rb_internal_thread_specific_key_t key) {
  return (int64_t)(intptr_t)rb_internal_thread_specific_get(thread, key);
}

static void set(VALUE thread, rb_internal_thread_specific_key_t key, int64_t value) {
  rb_internal_thread_specific_set(thread, key, (void *)(intptr_t)value);
}

// GVL held.
static void sample_job(void *unused) {
  (void)unused;
  int saved_errno = errno;
  nf_thread_context *context =
      nf_vm_on_main_ractor() ? atomic_load_explicit(&listener, memory_order_relaxed) : NULL;
  if (context != NULL) nf_thread_context_sample_after_wait(context);
  errno = saved_errno;
}

// Without the GVL, except for RESUMED; on any native thread. No Ruby object may be made and nothing raised.
static void on_event(rb_event_flag_t event, const rb_internal_thread_event_data_t *data, void *unused) {
  (void)unused;
  VALUE thread = data->thread;
  if (event == (RUBY_INTERNAL_THREAD_EVENT_READY)) {
    set(thread, key_waiting_since, nf_time_monotonic_ns());
    return;
  }
  set(thread, key_runs, get(thread, key_runs) + 1);
  int64_t since = get(thread, key_waiting_since);
  if (since == 0) return;
  set(thread, key_waiting_since, 0);
  int64_t now = nf_time_monotonic_ns();
  if (now - since < atomic_load_explicit(&long_wait, memory_order_relaxed)) return;
  set(thread, key_wait_start, since);
  set(thread, key_wait_finish, now);
  if (atomic_load_explicit(&listener, memory_order_relaxed) != NULL) rb_postponed_job_trigger(job);
}

bool nf_gvl_watch_supported(void) { return true; }

void nf_gvl_watch_init(void) {
  if (initialized) return;
  key_runs = rb_internal_thread_specific_key_create();
  key_waiting_since = rb_internal_thread_specific_key_create();
  key_wait_start = rb_internal_thread_specific_key_create();
  key_wait_finish = rb_internal_thread_specific_key_create();
  job = rb_postponed_job_preregister(0, sample_job, NULL);
  if (job == POSTPONED_JOB_HANDLE_INVALID) rb_raise(rb_eRuntimeError, "the VM has no room for our jobs");
  initialized = true;
}

void nf_gvl_watch_disable(void) {
  atomic_store_explicit(&listener, NULL, memory_order_relaxed);
  if (hook != NULL) rb_internal_thread_remove_event_hook(hook);
  hook = NULL;
}

void nf_gvl_watch_enable(nf_thread_context *context, int64_t long_wait_ns) {
  nf_gvl_watch_disable();
  enabled_at = nf_time_monotonic_ns();
  atomic_store_explicit(&long_wait, long_wait_ns, memory_order_relaxed);
  hook = rb_internal_thread_add_event_hook(
      on_event, (RUBY_INTERNAL_THREAD_EVENT_READY) | (RUBY_INTERNAL_THREAD_EVENT_RESUMED), NULL);
  atomic_store_explicit(&listener, context, memory_order_relaxed);
}

void nf_gvl_watch_forget(nf_thread_context *context) {
  if (context == NULL || atomic_load_explicit(&listener, memory_order_relaxed) == context) {
    atomic_store_explicit(&listener, NULL, memory_order_relaxed);
  }
}

bool nf_gvl_watch_enabled(const nf_thread_context *context) {
  return atomic_load_explicit(&listener, memory_order_relaxed) == context;
}

nf_gvl_state nf_gvl_watch_state_of(const nf_vm_thread *vm_thread) {
  nf_gvl_state state = {0};
  VALUE thread = nf_vm_thread_object(vm_thread);
  state.runs = (uint64_t)get(thread, key_runs);
  int64_t since = get(thread, key_waiting_since), finish = get(thread, key_wait_finish);
  if (since > enabled_at) state.waiting_since_ns = since;
  if (finish > enabled_at) {
    state.wait_start_ns = get(thread, key_wait_start);
    state.wait_finish_ns = finish;
  }
  return state;
}

#else

bool nf_gvl_watch_supported(void) { return false; }
void nf_gvl_watch_init(void) {}
void nf_gvl_watch_disable(void) {}
void nf_gvl_watch_forget(nf_thread_context *context) { (void)context; }

void nf_gvl_watch_enable(nf_thread_context *context, int64_t long_wait_ns) {
  (void)context;
  (void)long_wait_ns;
}

bool nf_gvl_watch_enabled(const nf_thread_context *context) {
  (void)context;
  return false;
}

nf_gvl_state nf_gvl_watch_state_of(const nf_vm_thread *thread) {
  (void)thread;
  return (nf_gvl_state){0};
}

#endif
