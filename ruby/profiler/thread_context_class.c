// The Ruby class Datadog::Profiling::Collectors::ThreadContext.

#include "thread_context_internal.h"

#include "fork_watch.h"
#include "gc_hook.h"
#include "gvl_watch.h"

static void context_mark(void *data) {
  nf_thread_context *context = data;
  rb_gc_mark_movable(context->recorder_object);
  nf_thread_table_mark(&context->threads);
}

static void context_compact(void *data) {
  nf_thread_context *context = data;
  context->recorder_object = rb_gc_location(context->recorder_object);
}

static void context_free(void *data) {
  nf_thread_context *context = data;
  nf_gc_hook_forget(context);
  nf_gvl_watch_forget(context);
  nf_stack_collector_drop(context->stack);
  nf_thread_table_deinit(&context->threads);
  ruby_xfree(context);
}

static size_t context_size(const void *data) {
  const nf_thread_context *context = data;
  return sizeof(*context) + nf_stack_collector_size(context->stack) + nf_thread_table_size(&context->threads);
}

static const rb_data_type_t context_type = {
    .wrap_struct_name = "Datadog::Profiling::Collectors::ThreadContext",
    .function = {.dmark = context_mark,
                 .dfree = context_free,
                 .dsize = context_size,
                 .dcompact = context_compact},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE context_allocate(VALUE klass) {
  nf_thread_context *context;
  VALUE object = TypedData_Make_Struct(klass, nf_thread_context, &context_type, context);
  context->recorder_object = Qnil;
  context->fork_generation = nf_fork_watch_generation();
  nf_gc_tracking_reset(&context->gc);
  return object;
}

nf_thread_context *nf_thread_context_from(VALUE object) {
  nf_thread_context *context;
  TypedData_Get_Struct(object, nf_thread_context, &context_type, context);
  return context;
}

static nf_otel_mode otel_mode_of(VALUE setting) {
  if (setting == Qfalse) return NF_OTEL_OFF;
  if (setting == ID2SYM(rb_intern("only"))) return NF_OTEL_ONLY;
  if (setting == ID2SYM(rb_intern("both"))) return NF_OTEL_BOTH;
  rb_raise(rb_eArgError, "otel_context_enabled must be false, :only or :both, not %+" PRIsVALUE, setting);
}

static VALUE native_initialize(VALUE self, VALUE object, VALUE recorder_object, VALUE max_frames,
                               VALUE tracer_context_key, VALUE endpoint_collection_enabled,
                               VALUE otel_context_enabled, VALUE timeline_enabled,
                               VALUE allocation_type_enabled, VALUE native_filenames_enabled,
                               VALUE gvl_enabled) {
  (void)self;
  nf_thread_context *context = nf_thread_context_from(object);
  nf_stack_recorder *recorder = nf_stack_recorder_from(recorder_object);
  int frames = nf_stack_collector_check_max_frames(max_frames);
  bool find_tracer = tracer_context_key == Qtrue;
  if (!find_tracer && !NIL_P(tracer_context_key)) NF_ENFORCE_TYPE(tracer_context_key, T_SYMBOL);
  ID tracer_key = RB_SYMBOL_P(tracer_context_key) ? SYM2ID(tracer_context_key) : 0;
  bool endpoints = NF_ENFORCE_BOOLEAN(endpoint_collection_enabled);
  nf_otel_mode otel = otel_mode_of(otel_context_enabled);
  bool timeline = NF_ENFORCE_BOOLEAN(timeline_enabled);
  bool allocation_type = NF_ENFORCE_BOOLEAN(allocation_type_enabled);
  bool gvl = NF_ENFORCE_BOOLEAN(gvl_enabled);
  bool native_filenames = NF_ENFORCE_BOOLEAN(native_filenames_enabled);
  nf_vm_look_at_threads();
  if (context->stack != NULL) rb_raise(rb_eRuntimeError, "the ThreadContext is initialized already");
  nf_vm_thread *main_thread = nf_vm_thread_from(rb_thread_main());

  context->stack = nf_stack_collector_new(frames, native_filenames);
  if (context->stack == NULL) rb_memerror();
  context->recorder_object = recorder_object;
  context->recorder = recorder;
  context->main_thread = main_thread;
  context->traces = (nf_trace_source){
      .tracer_context_key = tracer_key, .find_tracer = find_tracer, .otel = otel, .endpoints = endpoints};
  context->timeline_enabled = timeline;
  context->gvl_enabled = gvl && nf_gvl_watch_supported();
  context->allocation_type_enabled = allocation_type;
  RB_GC_GUARD(object);
  return Qtrue;
}

static VALUE native_reset_after_fork(VALUE self, VALUE object) {
  (void)self;
  nf_failure failure;
  if (!nf_thread_context_reset_after_fork(nf_thread_context_from(object), &failure)) {
    rb_raise(rb_eRuntimeError, "%s", failure.text);
  }
  return Qtrue;
}

static VALUE native_begin_profile(VALUE self, VALUE object) {
  (void)self;
  nf_vm_look_at_threads();
  nf_thread_context *context = nf_thread_context_from(object);
  nf_failure failure;
  // Forgetting the threads too makes their number that of this profile.
  if (!nf_thread_context_reset_after_fork(context, &failure) || !nf_thread_context_begin(context, &failure)) {
    rb_raise(rb_eRuntimeError, "%s", failure.text);
  }
  return Qtrue;
}

static VALUE native_sample_all(VALUE self, VALUE object) {
  (void)self;
  nf_thread_context *context = nf_thread_context_from(object);
  nf_failure failure;
  if (!nf_thread_context_sample_all(context, &failure)) rb_raise(rb_eRuntimeError, "%s", failure.text);
  nf_gc_profiling_sample(context, &failure); // what is left, if anything
  return Qtrue;
}

static VALUE native_gvl_supported_p(VALUE self) {
  (void)self;
  return nf_gvl_watch_supported() ? Qtrue : Qfalse;
}

static VALUE native_sample_skipped(VALUE self, VALUE object) {
  (void)self;
  nf_failure failure;
  if (!nf_thread_context_sample_skipped(nf_thread_context_from(object), &failure)) {
    rb_raise(rb_eRuntimeError, "%s", failure.text);
  }
  return Qtrue;
}

static void set(VALUE hash, const char *key, VALUE value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(key)), value);
}

static VALUE native_stats(VALUE self, VALUE object) {
  (void)self;
  nf_thread_context *context = nf_thread_context_from(object);
  VALUE stats = rb_hash_new();
  set(stats, "threads", SIZET2NUM(context->threads.count));
  set(stats, "threads_seen", ULL2NUM(context->threads.created));
  set(stats, "threads_without_memory", ULL2NUM(context->threads_without_memory));
  set(stats, "cpu_clock_failures", ULL2NUM(context->cpu_clock_failures));
  set(stats, "threads_skipped", ULL2NUM(context->threads_skipped));
  set(stats, "gvl_waits", ULL2NUM(context->gvl_waits));
  set(stats, "gc_samples", ULL2NUM(context->gc.samples));
  set(stats, "gc_samples_missed_due_to_missing_context", ULL2NUM(context->gc.missed));
  return stats;
}

// --- test doors ---

static VALUE testing_sample(VALUE self, VALUE object, VALUE overhead_thread) {
  (void)self;
  NF_ENFORCE_THREAD(overhead_thread);
  nf_failure failure;
  if (!nf_thread_context_sample(nf_thread_context_from(object), nf_vm_thread_from(overhead_thread),
                                &failure)) {
    rb_raise(rb_eRuntimeError, "%s", failure.text);
  }
  return Qtrue;
}

static void push_thread(nf_vm_thread *thread, void *data) {
  VALUE *buffer = data;
  rb_ary_push(*buffer, nf_vm_thread_object(thread)); // cannot grow: it was made big enough
}

static VALUE testing_thread_list(VALUE self) {
  (void)self;
  VALUE threads = rb_ary_new_capa(
      NUM2LONG(rb_funcall(rb_funcall(rb_cThread, rb_intern("list"), 0), rb_intern("size"), 0)) + 16);
  nf_vm_each_thread(push_thread, &threads);
  return threads;
}

static VALUE testing_per_thread_context(VALUE self, VALUE object) {
  (void)self;
  nf_thread_context *context = nf_thread_context_from(object);
  VALUE all = rb_hash_new();
  rb_funcall(all, rb_intern("compare_by_identity"), 0);
  for (size_t i = 0; i < context->threads.count; i++) {
    nf_thread_entry *entry = context->threads.entries[i];
    VALUE one = rb_hash_new();
    rb_hash_aset(all, entry->thread, one);
    set(one, "thread_id", rb_utf8_str_new(entry->id, (long)entry->id_length));
    set(one, "thread_invoke_location", rb_utf8_str_new(entry->birthplace, (long)entry->birthplace_length));
    set(one, "thread_cpu_time_id_valid?", entry->cpu_clock.valid ? Qtrue : Qfalse);
    set(one, "thread_cpu_time_id", entry->cpu_clock.valid ? LL2NUM((long long)entry->cpu_clock.id) : Qnil);
    set(one, "cpu_time_at_previous_sample_ns", LL2NUM(entry->cpu_time_at_previous_sample_ns));
    set(one, "wall_time_at_previous_sample_ns", LL2NUM(entry->wall_time_at_previous_sample_ns));
    set(one, "gc_tracking.cpu_time_at_start_ns", LL2NUM(entry->gc_cpu_start_ns));
    set(one, "gc_tracking.wall_time_at_start_ns", LL2NUM(entry->gc_wall_start_ns));
  }
  return all;
}

static VALUE testing_gc_tracking(VALUE self, VALUE object) {
  (void)self;
  nf_gc_tracking *gc = &nf_thread_context_from(object)->gc;
  VALUE all = rb_hash_new();
  set(all, "accumulated_cpu_time_ns", LL2NUM(gc->accumulated_cpu_ns));
  set(all, "accumulated_wall_time_ns", LL2NUM(gc->accumulated_wall_ns));
  set(all, "wall_time_at_previous_gc_ns", LL2NUM(gc->wall_at_previous_gc_ns));
  set(all, "wall_time_at_last_flushed_gc_event_ns", LL2NUM(gc->wall_at_last_flushed_gc_ns));
  return all;
}

static VALUE testing_on_gc_start(VALUE self, VALUE object) {
  (void)self;
  nf_gc_profiling_on_start(nf_thread_context_from(object));
  return Qtrue;
}

static VALUE testing_on_gc_finish(VALUE self, VALUE object) {
  (void)self;
  return nf_gc_profiling_on_finish(nf_thread_context_from(object)) ? Qtrue : Qfalse;
}

static VALUE testing_sample_after_gc(VALUE self, VALUE object) {
  (void)self;
  nf_thread_context *context = nf_thread_context_from(object);
  nf_failure failure;
  if (!nf_thread_context_ready(context, &failure) || !nf_gc_profiling_sample(context, &failure)) {
    rb_raise(rb_eRuntimeError, "%s", failure.text);
  }
  return Qtrue;
}

void nf_thread_context_define(VALUE collectors) {
  VALUE klass = rb_define_class_under(collectors, "ThreadContext", rb_cObject);
  rb_define_alloc_func(klass, context_allocate);
  rb_define_singleton_method(klass, "_native_initialize", native_initialize, 10);
  rb_define_singleton_method(klass, "_native_reset_after_fork", native_reset_after_fork, 1);
  rb_define_singleton_method(klass, "_native_begin_profile", native_begin_profile, 1);
  rb_define_singleton_method(klass, "_native_sample_all", native_sample_all, 1);
  rb_define_singleton_method(klass, "_native_sample_skipped", native_sample_skipped, 1);
  rb_define_singleton_method(klass, "_native_gvl_supported?", native_gvl_supported_p, 0);
  rb_define_singleton_method(klass, "_native_stats", native_stats, 1);
  VALUE testing = rb_define_module_under(klass, "Testing");
  rb_define_singleton_method(testing, "_native_sample", testing_sample, 2);
  rb_define_singleton_method(testing, "_native_thread_list", testing_thread_list, 0);
  rb_define_singleton_method(testing, "_native_per_thread_context", testing_per_thread_context, 1);
  rb_define_singleton_method(testing, "_native_gc_tracking", testing_gc_tracking, 1);
  rb_define_singleton_method(testing, "_native_on_gc_start", testing_on_gc_start, 1);
  rb_define_singleton_method(testing, "_native_on_gc_finish", testing_on_gc_finish, 1);
  rb_define_singleton_method(testing, "_native_sample_after_gc", testing_sample_after_gc, 1);
  nf_thread_context_define_allocation_testing(testing);
}
