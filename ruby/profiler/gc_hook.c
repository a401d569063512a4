#include "gc_hook.h"

#include "gc_profiling.h"
#include "postponed_job.h"
#include "private_vm_access.h"

#include <ruby/debug.h>

#include <errno.h>
#include <stdatomic.h>

static VALUE tracepoint;
static nf_postponed_job job;
static nf_thread_context *_Atomic listener; // NULL: nobody. Changes under the GVL (or in a new child)

static size_t gcs_told; // rb_gc_count() at the last event

static nf_thread_context *current_listener(void) {
  return atomic_load_explicit(&listener, memory_order_relaxed);
}

// Runs outside of the collector, GVL held, on whatever thread the VM has at hand.
static void flush_job(void *argument) {
  (void)argument;
  int saved_errno = errno;
  nf_thread_context *context = nf_vm_on_main_ractor() ? current_listener() : NULL;
  nf_failure nothing_left; // an earlier job or the end of the profile was faster
  if (context != NULL) nf_gc_profiling_sample(context, &nothing_left);
  errno = saved_errno;
}

// In the collector: no object may be made, nothing raised.
static void on_gc_event(VALUE data, void *unused) {
  (void)unused;
  gcs_told = rb_gc_count();
  if (!nf_vm_on_main_ractor()) return;
  nf_thread_context *context = current_listener();
  if (context == NULL) return;
  int saved_errno = errno;
  rb_event_flag_t event = rb_tracearg_event_flag(rb_tracearg_from_tracepoint(data));
  if (event == RUBY_INTERNAL_EVENT_GC_ENTER) {
    nf_gc_profiling_on_start(context);
  } else if (event == RUBY_INTERNAL_EVENT_GC_EXIT && nf_gc_profiling_on_finish(context)) {
    // If the VM has no room for it, the next collection asks again.
    nf_postponed_job_trigger(&job);
  }
  errno = saved_errno;
}

void nf_gc_hook_init(void) {
  nf_gc_profiling_init();
  if (tracepoint != 0) return;
  nf_postponed_job_define(&job, flush_job);
  tracepoint =
      rb_tracepoint_new(0, RUBY_INTERNAL_EVENT_GC_ENTER | RUBY_INTERNAL_EVENT_GC_EXIT, on_gc_event, NULL);
  rb_gc_register_mark_object(tracepoint);
}

void nf_gc_hook_disable(void) {
  atomic_store_explicit(&listener, NULL, memory_order_relaxed);
  rb_tracepoint_disable(tracepoint);
}

void nf_gc_hook_enable(nf_thread_context *context) {
  rb_tracepoint_disable(tracepoint); // one that is enabled twice fires twice (Ruby bug 19114)
  rb_tracepoint_enable(tracepoint);
  gcs_told = rb_gc_count();
  atomic_store_explicit(&listener, context, memory_order_relaxed);
}

static VALUE enable_again(VALUE unused) {
  (void)unused;
  rb_tracepoint_disable(tracepoint);
  rb_tracepoint_enable(tracepoint);
  return Qnil;
}

void nf_gc_hook_revive(nf_thread_context *context) {
  if (current_listener() != context) return;
  nf_gc_profiling_forget_starts(context);
  if (gcs_told == rb_gc_count()) return;
  VALUE error = rb_errinfo();
  int raised = 0;
  rb_protect(enable_again, Qnil, &raised);
  if (raised) rb_set_errinfo(error); // no memory; at the next sample, perhaps
  gcs_told = rb_gc_count();
}

void nf_gc_hook_forget(nf_thread_context *context) {
  if (context == NULL || current_listener() == context) {
    atomic_store_explicit(&listener, NULL, memory_order_relaxed);
  }
}

VALUE nf_gc_hook_tracepoint(void) { return tracepoint; }
