#include "ractor_guard.h"

#include "private_vm_access.h"
#include "worker.h"

static bool closed; // changes on the main Ractor only
static VALUE guard; // Datadog::Profiling::RactorGuard

bool nf_ractor_guard_closed(void) { return closed; }

static void close_guard(void) {
  closed = true; // first: to find out who is to be told may let other threads run
  nf_worker_end_object_hooks();
}

#ifdef HAVE_RB_EXT_RACTOR_SAFE // Rubies that have Ractors

// `Ractor.new`. It is native, so that the Ractor knows itself as made where the program has made it.
static VALUE hook_new(int argc, VALUE *argv, VALUE self) {
  (void)self;
  int keywords = rb_keyword_given_p();
  if (!closed && nf_vm_on_main_ractor() && rb_block_given_p()) {
    close_guard();
    rb_funcall(guard, rb_intern("closed"), 0);
  }
  return rb_call_super_kw(argc, argv, keywords ? RB_PASS_KEYWORDS : RB_NO_KEYWORDS);
}

// Puts the hook before Ractor.new. Once.
static VALUE native_install(VALUE self) {
  VALUE hook = rb_define_module_under(self, "Hook");
  rb_ext_ractor_safe(true); // of the methods that are defined from here on; Ractors make Ractors, too
  rb_define_method(hook, "new", hook_new, -1);
  rb_ext_ractor_safe(false);
  rb_prepend_module(rb_singleton_class(rb_const_get(rb_cObject, rb_intern("Ractor"))), hook);
  return Qtrue;
}

#else

static VALUE native_install(VALUE self) {
  (void)self;
  return Qfalse;
}

#endif

static VALUE native_close(VALUE self) {
  (void)self;
  close_guard();
  return Qtrue;
}

static VALUE native_closed_p(VALUE self) {
  (void)self;
  return closed ? Qtrue : Qfalse;
}

void nf_ractor_guard_define(VALUE profiling) {
  guard = rb_define_module_under(profiling, "RactorGuard");
  rb_gc_register_mark_object(guard);
  rb_define_singleton_method(guard, "_native_install", native_install, 0);
  rb_define_singleton_method(guard, "_native_close", native_close, 0);
  rb_define_singleton_method(guard, "closed?", native_closed_p, 0);
}
