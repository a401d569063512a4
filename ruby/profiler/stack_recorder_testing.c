#include "stack_recorder_internal.h"

#include "heap_hook.h"

static VALUE native_active_slot(VALUE self, VALUE recorder_object) {
  (void)self;
  return INT2FIX(nf_stack_recorder_from(recorder_object)->active + 1);
}

static VALUE native_record_endpoint(VALUE self, VALUE recorder_object, VALUE local_root_span_id,
                                    VALUE endpoint) {
  (void)self;
  NF_ENFORCE_TYPE(endpoint, T_STRING);
  nf_stack_recorder_set_endpoint(nf_stack_recorder_from(recorder_object), NUM2ULL(local_root_span_id),
                                 nf_slice_of(endpoint));
  return Qtrue;
}

// What a fork by another thread in the middle of serializing leaves in the child.
static VALUE native_pretend_torn_by_fork(VALUE self, VALUE recorder_object) {
  (void)self;
  nf_stack_recorder *recorder = nf_stack_recorder_from(recorder_object);
  recorder->serializing = true;
  recorder->slots[1 - recorder->active].profile =
      (ddog_prof_Profile){.inner = (void *)(uintptr_t)16}; // deadly
  return Qtrue;
}

// The next allocation sample is of this object.
static VALUE native_track_object(VALUE self, VALUE recorder_object, VALUE object, VALUE weight, VALUE klass) {
  (void)self;
  nf_stack_recorder *recorder = nf_stack_recorder_from(recorder_object);
  NF_ENFORCE_TYPE(klass, T_STRING);
  unsigned long long count = NUM2ULL(weight);
  if (RB_SPECIAL_CONST_P(object)) rb_raise(rb_eArgError, "%" PRIsVALUE " is not allocated", object);
  nf_stack_recorder_watch_objects(recorder, true);
  nf_stack_recorder_track_next(recorder, object, count, nf_slice_of(klass)); // borrowed: the caller keeps it
  return Qtrue;
}

// A profile without samples seems to have begun when the clock was ahead by so much.
static VALUE native_set_clock_back(VALUE self, VALUE recorder_object, VALUE seconds) {
  (void)self;
  nf_stack_recorder *recorder = nf_stack_recorder_from(recorder_object);
  nf_recorder_slot *slot = &recorder->slots[recorder->active];
  slot->start.seconds += NUM2LL(seconds);
  ddog_prof_Profile_Result result = ddog_prof_Profile_reset(&slot->profile, &slot->start);
  if (result.tag == DDOG_PROF_PROFILE_RESULT_ERR) {
    ddog_Error_drop(&result.err);
    return Qfalse;
  }
  return Qtrue;
}

static VALUE native_watch_objects(VALUE self, VALUE recorder_object, VALUE watch) {
  (void)self;
  nf_stack_recorder_watch_objects(nf_stack_recorder_from(recorder_object), NF_ENFORCE_BOOLEAN(watch));
  return Qtrue;
}

static VALUE native_check_heap_hashes(VALUE self, VALUE recorder_object) {
  (void)self;
  return nf_heap_recorder_consistent(&nf_stack_recorder_from(recorder_object)->heap) ? Qtrue : Qfalse;
}

// What is there between the two happens while another thread writes the live objects into a profile.
static VALUE native_start_fake_slow_heap_serialization(VALUE self, VALUE recorder_object) {
  (void)self;
  nf_failure failure;
  if (!nf_heap_recorder_prepare(&nf_stack_recorder_from(recorder_object)->heap, &failure)) {
    rb_raise(rb_eRuntimeError, "%s", failure.text);
  }
  return Qtrue;
}

static VALUE native_end_fake_slow_heap_serialization(VALUE self, VALUE recorder_object) {
  (void)self;
  nf_heap_recorder_finish(&nf_stack_recorder_from(recorder_object)->heap, false);
  return Qtrue;
}

static VALUE native_set_heap_budget(VALUE self, VALUE recorder_object, VALUE bytes) {
  (void)self;
  nf_stack_recorder_from(recorder_object)->heap.budget = NUM2SIZET(bytes);
  return Qtrue;
}

static VALUE native_heap_hook_p(VALUE self) {
  (void)self;
  return nf_heap_hook_attached() ? Qtrue : Qfalse;
}

static VALUE native_frees_missed(VALUE self) {
  (void)self;
  return ULL2NUM(nf_heap_hook_missed());
}

static VALUE native_pretend_frees_missed(VALUE self) {
  (void)self;
  nf_heap_hook_pretend_missed();
  return Qtrue;
}

void nf_stack_recorder_define_testing(VALUE klass) {
  VALUE testing = rb_define_module_under(klass, "Testing");
  rb_define_singleton_method(testing, "_native_active_slot", native_active_slot, 1);
  rb_define_singleton_method(testing, "_native_record_endpoint", native_record_endpoint, 3);
  rb_define_singleton_method(testing, "_native_pretend_torn_by_fork", native_pretend_torn_by_fork, 1);
  rb_define_singleton_method(testing, "_native_track_object", native_track_object, 4);
  rb_define_singleton_method(testing, "_native_set_clock_back", native_set_clock_back, 2);
  rb_define_singleton_method(testing, "_native_watch_objects", native_watch_objects, 2);
  rb_define_singleton_method(testing, "_native_check_heap_hashes", native_check_heap_hashes, 1);
  rb_define_singleton_method(testing, "_native_start_fake_slow_heap_serialization",
                             native_start_fake_slow_heap_serialization, 1);
  rb_define_singleton_method(testing, "_native_end_fake_slow_heap_serialization",
                             native_end_fake_slow_heap_serialization, 1);
  rb_define_singleton_method(testing, "_native_set_heap_budget", native_set_heap_budget, 2);
  rb_define_singleton_method(testing, "_native_heap_hook?", native_heap_hook_p, 0);
  rb_define_singleton_method(testing, "_native_frees_missed", native_frees_missed, 0);
  rb_define_singleton_method(testing, "_native_pretend_frees_missed", native_pretend_frees_missed, 0);
}
