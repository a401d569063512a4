// Start of the extension: defines everything below Datadog::Profiling that is native.

#include "clock_id.h"
#include "discrete_dynamic_sampler.h"
#include "dynamic_sampling_rate.h"
#include "fork_watch.h"
#include "gc_hook.h"
#include "gvl_watch.h"
#include "http_transport.h"
#include "idle_sampling_helper.h"
#include "private_vm_access.h"
#include "ractor_guard.h"
#include "ruby_helpers.h"
#include "self_test.h"
#include "signal_setup.h"
#include "stack_collector.h"
#include "stack_recorder.h"
#include "testing.h"
#include "thread_context.h"
#include "time_helpers.h"
#include "trace_context.h"
#include "worker.h"

// true, or a RuntimeError that says why profiling cannot work.
static VALUE native_working_p(VALUE self) {
  (void)self;
  VALUE reason = nf_self_test();
  if (!NIL_P(reason)) rb_raise(rb_eRuntimeError, "self-test failed: %" PRIsVALUE, reason);
  return Qtrue;
}

static VALUE native_cpu_time_p(VALUE self) {
  (void)self;
  return nf_cpu_clock_supported() ? Qtrue : Qfalse;
}

static VALUE native_monotonic_ns(VALUE self) {
  (void)self;
  return LL2NUM(nf_time_monotonic_ns());
}

// Blocks SIGPROF for the current thread, or unblocks it; returns what it was before.
static VALUE native_block_sigprof(VALUE self, VALUE blocked) {
  (void)self;
  return nf_signal_set_blocked(NF_ENFORCE_BOOLEAN(blocked)) ? Qtrue : Qfalse;
}

// [what Ruby's inside is read by, why not by its own structures, was that a surprise, [what public functions
// of this Ruby tell]]
static VALUE native_vm_access(VALUE self) {
  (void)self;
  const char *why = nf_vm_why_public();
  VALUE known = rb_ary_new();
  if (nf_vm_sees_other_stacks()) rb_ary_push(known, ID2SYM(rb_intern("other_stacks")));
  if (nf_vm_knows_gvl_owner()) rb_ary_push(known, ID2SYM(rb_intern("gvl_owner")));
  if (nf_vm_knows_thread_ids()) rb_ary_push(known, ID2SYM(rb_intern("thread_ids")));
  return rb_ary_new_from_args(4, ID2SYM(rb_intern(nf_vm_private() ? "private" : "public")),
                              why ? rb_utf8_str_new_cstr(why) : Qnil,
                              nf_vm_mismatch() ? Qtrue : Qfalse, known);
}

static void after_fork_in_child(void) {
  nf_vm_after_fork_in_child();
  nf_worker_forget_after_fork();
  nf_gc_hook_forget(NULL);
  nf_gvl_watch_forget(NULL);
}

__attribute__((visibility("default"))) void Init_datadog_profiling_native_extension(void) {
  VALUE datadog = rb_define_module("Datadog");
  VALUE profiling = rb_define_module_under(datadog, "Profiling");
  VALUE collectors = rb_define_module_under(profiling, "Collectors");
  VALUE native_extension = rb_define_module_under(profiling, "NativeExtension");

  rb_define_singleton_method(native_extension, "native_working?", native_working_p, 0);
  rb_define_singleton_method(native_extension, "_native_cpu_time?", native_cpu_time_p, 0);
  rb_define_singleton_method(native_extension, "_native_monotonic_ns", native_monotonic_ns, 0);
  rb_define_singleton_method(native_extension, "_native_block_sigprof", native_block_sigprof, 1);
  rb_define_singleton_method(native_extension, "_native_vm_access", native_vm_access, 0);
  rb_funcall(native_extension, rb_intern("private_class_method"), 1, ID2SYM(rb_intern("native_working?")));

  nf_vm_access_init();
  static bool watching = false; // a second loader must not register twice
  if (!watching && !nf_fork_watch_init(after_fork_in_child)) rb_memerror();
  watching = true;

  nf_gc_hook_init();
  nf_gvl_watch_init();
  nf_trace_context_init();
  nf_ractor_guard_define(profiling);
  nf_worker_define(collectors);
  nf_sampling_rate_define(collectors);
  nf_discrete_sampler_define(collectors);
  nf_idle_helper_define(collectors);
  nf_stack_collector_define(collectors);
  nf_thread_context_define(collectors);
  nf_stack_recorder_define(profiling);
  nf_http_transport_define(profiling);
  nf_testing_define(native_extension);
}
