#include "worker_internal.h"

#include "allocation_hook.h"
#include "gc_hook.h"
#include "ruby_helpers.h"
#include "signal_setup.h"

#include <ruby/thread.h>

#include <stdint.h>
#include <time.h>

static VALUE testing_current_handler(VALUE self) {
  (void)self;
  switch (nf_signal_current_owner(nf_worker_handle_signal)) {
  case NF_SIGNAL_OWNER_PROFILING:
    return ID2SYM(rb_intern("profiling"));
  case NF_SIGNAL_OWNER_EMPTY:
    return ID2SYM(rb_intern("empty"));
  case NF_SIGNAL_OWNER_NOBODY:
    return Qnil;
  default:
    return ID2SYM(rb_intern("other"));
  }
}

static void other_handler(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  (void)context;
}

static VALUE testing_install_other_handler(VALUE self) {
  (void)self;
  struct sigaction action = {.sa_flags = SA_SIGINFO, .sa_sigaction = other_handler};
  sigemptyset(&action.sa_mask);
  return sigaction(SIGPROF, &action, NULL) == 0 ? Qtrue : Qfalse;
}

static VALUE testing_remove_other_handler(VALUE self) {
  (void)self;
  struct sigaction action = {.sa_handler = SIG_IGN};
  return sigaction(SIGPROF, &action, NULL) == 0 ? Qtrue : Qfalse;
}

static VALUE testing_is_sigprof_blocked(VALUE self) {
  (void)self;
  return nf_signal_blocked() ? Qtrue : Qfalse;
}

static VALUE testing_simulate_signal(VALUE self) {
  (void)self;
  nf_worker_handle_signal(SIGPROF, NULL, NULL);
  return Qtrue;
}

static VALUE testing_simulate_job(VALUE self) {
  (void)self;
  nf_worker_sample_job(NULL);
  return Qtrue;
}

static void *sample_after_a_while(void *seconds) {
  struct timespec time = {.tv_nsec = (long)(*(double *)seconds * 1e9)};
  nanosleep(&time, NULL);
  nf_worker_sample_idle_program();
  return NULL;
}

// What the idle helper does when it wakes up so late.
static VALUE testing_sample_idle_program(VALUE self, VALUE seconds) {
  (void)self;
  double late = NUM2DBL(seconds);
  rb_thread_call_without_gvl(sample_after_a_while, &late, NULL, NULL);
  return Qtrue;
}

// What a sample that cannot be recorded does.
static VALUE testing_fail(VALUE self, VALUE object, VALUE text) {
  (void)self;
  NF_ENFORCE_TYPE(text, T_STRING);
  nf_worker_fail(object, StringValueCStr(text));
  return Qtrue;
}

// All of the current handler that can be compared: [address, flags, blocked signals].
static VALUE testing_sigaction(VALUE self) {
  (void)self;
  struct sigaction current;
  if (sigaction(SIGPROF, NULL, &current) != 0) rb_sys_fail("sigaction");
  VALUE blocked = rb_ary_new();
  for (int i = 1; i < NSIG; i++) {
    if (sigismember(&current.sa_mask, i) == 1) rb_ary_push(blocked, INT2FIX(i));
  }
  return rb_ary_new_from_args(3, ULL2NUM((unsigned long long)(uintptr_t)current.sa_sigaction),
                              INT2FIX(current.sa_flags), blocked);
}

static VALUE testing_gc_tracepoint(VALUE self) {
  (void)self;
  return nf_gc_hook_tracepoint();
}

static VALUE testing_allocation_hook(VALUE self) {
  (void)self;
  return nf_allocation_hook_attached() ? Qtrue : Qfalse;
}

static VALUE testing_lose_allocation_hook(VALUE self) {
  (void)self;
  nf_allocation_hook_lose();
  return Qtrue;
}

void nf_worker_define_testing(VALUE klass) {
  VALUE testing = rb_define_module_under(klass, "Testing");
  rb_define_singleton_method(testing, "_native_current_sigprof_signal_handler", testing_current_handler, 0);
  rb_define_singleton_method(testing, "_native_is_running?", nf_worker_running_p, 1);
  rb_define_singleton_method(testing, "_native_install_testing_signal_handler", testing_install_other_handler,
                             0);
  rb_define_singleton_method(testing, "_native_remove_testing_signal_handler", testing_remove_other_handler,
                             0);
  rb_define_singleton_method(testing, "_native_is_sigprof_blocked_in_current_thread",
                             testing_is_sigprof_blocked, 0);
  rb_define_singleton_method(testing, "_native_simulate_handle_sampling_signal", testing_simulate_signal, 0);
  rb_define_singleton_method(testing, "_native_simulate_sample_from_postponed_job", testing_simulate_job, 0);
  rb_define_singleton_method(testing, "_native_sample_idle_program", testing_sample_idle_program, 1);
  rb_define_singleton_method(testing, "_native_delayed_error", testing_fail, 2);
  rb_define_singleton_method(testing, "_native_gc_tracepoint", testing_gc_tracepoint, 0);
  rb_define_singleton_method(testing, "_native_allocation_hook?", testing_allocation_hook, 0);
  rb_define_singleton_method(testing, "_native_lose_allocation_hook", testing_lose_allocation_hook, 0);
  rb_define_singleton_method(testing, "_native_sigaction", testing_sigaction, 0);
}
