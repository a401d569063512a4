#include "thread_context.h"

#include "clock_id.h"
#include "fork_watch.h"
#include "stack_collector.h"
#include "stack_recorder.h"
#include "thread_table.h"
#include "time_helpers.h"

#include <stdlib.h>
#include <string.h>

// thread id, thread name, state, profiler overhead
#define MAX_LABELS 4

struct nf_thread_context {
  VALUE recorder_object;
  nf_stack_recorder *recorder;
  nf_stack_collector *stack;
  nf_thread_table threads;
  nf_vm_thread *main_thread;
  uint64_t pass;
  uint64_t fork_generation;
  uint64_t threads_without_memory; // samples that had to be left out
  uint64_t cpu_clock_failures;
};

static const struct {
  const char *ending, *instead;
} uninformative_birthplaces[] = {{"/lib/logging/diagnostic_context.rb", "(Unnamed thread)"}};

// --- threads seen for the first time ---

typedef struct id_request {
  VALUE thread;
  VALUE id;
} id_request;

static VALUE object_id(VALUE data) {
  id_request *request = (id_request *)data;
  request->id = rb_obj_id(request->thread);
  return Qnil;
}

static void set_birthplace(const nf_thread_context *context, nf_thread_entry *entry) {
  VALUE file;
  int line;
  char text[512];
  if (entry->vm_thread == context->main_thread) return;
  if (nf_vm_thread_birthplace(entry->vm_thread, &file, &line)) {
    snprintf(text, sizeof(text), "%.*s:%d", (int)(RSTRING_LEN(file) < 480 ? RSTRING_LEN(file) : 480),
             RSTRING_PTR(file), line);
    for (size_t i = 0; i < sizeof(uninformative_birthplaces) / sizeof(uninformative_birthplaces[0]); i++) {
      size_t length = strlen(uninformative_birthplaces[i].ending);
      if ((size_t)RSTRING_LEN(file) >= length && memcmp(RSTRING_PTR(file) + RSTRING_LEN(file) - length,
                                                        uninformative_birthplaces[i].ending, length) == 0) {
        snprintf(text, sizeof(text), "%s", uninformative_birthplaces[i].instead);
      }
    }
  } else {
    snprintf(text, sizeof(text), "(Unnamed thread from native code)");
  }
  entry->birthplace = strdup(text); // NULL: shown without a name
  entry->birthplace_length = entry->birthplace ? strlen(entry->birthplace) : 0;
}

// First part of a pass: makes sure that every thread has an entry. A thread's object id may need memory of
// Ruby, which may start a GC: that is why no frame has been looked at yet.
static void see_thread(nf_vm_thread *vm_thread, void *data) {
  nf_thread_context *context = data;
  if (nf_vm_thread_tid(vm_thread) == 0) return; // created, but its native thread has not run yet
  VALUE thread = nf_vm_thread_object(vm_thread);
  nf_thread_entry *entry = nf_thread_table_find(&context->threads, thread);
  if (entry == NULL) {
    entry = nf_thread_table_add(&context->threads, thread);
    if (entry == NULL) {
      context->threads_without_memory++;
      return;
    }
    entry->vm_thread = vm_thread;
    entry->cpu_clock = nf_cpu_clock_of(vm_thread);
    id_request request = {.thread = thread, .id = Qnil};
    int raised = 0;
    rb_protect(object_id, (VALUE)&request, &raised);
    if (raised) rb_set_errinfo(Qnil);
    int length = snprintf(entry->id, sizeof(entry->id), "%d (%ld)", (int)nf_vm_thread_tid(vm_thread),
                          FIXNUM_P(request.id) ? FIX2LONG(request.id) : -1L);
    entry->id_length = (size_t)length < sizeof(entry->id) ? (size_t)length : sizeof(entry->id) - 1;
    set_birthplace(context, entry);
  }
  entry->seen_in_pass = context->pass;
}

// --- sampling ---

static ddog_CharSlice name_of(const nf_thread_context *context, const nf_thread_entry *entry) {
  VALUE name = nf_vm_thread_name(entry->vm_thread);
  if (!NIL_P(name)) return nf_slice_of(name);
  if (entry->vm_thread == context->main_thread) return NF_SLICE("main");
  if (entry->birthplace) return nf_slice_of_text(entry->birthplace, entry->birthplace_length);
  return NF_SLICE("");
}

// Time since the previous sample; negative steps and unknown starts count as nothing.
static int64_t since_previous(int64_t *previous, int64_t now) {
  int64_t elapsed = *previous == NF_NOT_KNOWN || now < *previous ? 0 : now - *previous;
  *previous = now;
  return elapsed;
}

static int64_t cpu_since_previous(nf_thread_context *context, nf_thread_entry *entry, int64_t now,
                                  bool known) {
  if (!known) {
    if (entry->cpu_clock.valid) context->cpu_clock_failures++;
    entry->cpu_time_at_previous_sample_ns = NF_NOT_KNOWN;
    return 0;
  }
  return since_previous(&entry->cpu_time_at_previous_sample_ns, now);
}

// A sample that the recorder refuses is lost, and counted there; sampling goes on.
static void sample_thread(nf_thread_context *context, nf_thread_entry *entry, const nf_vm_thread *stack_of,
                          bool overhead, int64_t cpu_ns, int64_t wall_ns) {
  nf_sample_values values = {{0}};
  values.value[NF_VALUE_CPU_TIME] = cpu_ns;
  values.value[NF_VALUE_CPU_SAMPLES] = 1;
  values.value[NF_VALUE_WALL_TIME] = wall_ns;

  ddog_prof_Label labels[MAX_LABELS];
  size_t count = 0;
  labels[count++] = (ddog_prof_Label){.key = NF_SLICE("thread id"),
                                      .str = nf_slice_of_text(entry->id, entry->id_length),
                                      .num_unit = NF_SLICE("")};
  labels[count++] = (ddog_prof_Label){
      .key = NF_SLICE("thread name"), .str = name_of(context, entry), .num_unit = NF_SLICE("")};
  if (overhead) {
    labels[count++] = (ddog_prof_Label){
        .key = NF_SLICE("profiler overhead"), .str = NF_SLICE(""), .num = 1, .num_unit = NF_SLICE("")};
  }
  ddog_prof_Label *state = &labels[count++];
  *state = (ddog_prof_Label){.key = NF_SLICE("state"), .str = NF_SLICE(""), .num_unit = NF_SLICE("")};
  nf_failure refusal;
  nf_stack_collector_sample(context->stack, stack_of, context->recorder, &values, labels, count, state,
                            &refusal);
}

static bool ready(nf_thread_context *context, nf_failure *failure) {
  if (context->stack == NULL) return nf_failure_set(failure, "the ThreadContext was not initialized");
  if (context->fork_generation == nf_fork_watch_generation()) return true;
  return nf_thread_context_reset_after_fork(context, failure); // nobody told us about the fork
}

static void see_all_threads(nf_thread_context *context) {
  context->pass++;
  nf_vm_each_thread(see_thread, context);
  nf_thread_table_drop_unseen(&context->threads, context->pass);
}

bool nf_thread_context_begin(nf_thread_context *context, nf_failure *failure) {
  if (!ready(context, failure)) return false;
  see_all_threads(context);
  int64_t now = nf_time_monotonic_ns();
  for (size_t i = 0; i < context->threads.count; i++) {
    nf_thread_entry *entry = context->threads.entries[i];
    if (!nf_cpu_clock_read(entry->cpu_clock, &entry->cpu_time_at_previous_sample_ns)) {
      entry->cpu_time_at_previous_sample_ns = NF_NOT_KNOWN;
    }
    entry->wall_time_at_previous_sample_ns = now;
  }
  return true;
}

bool nf_thread_context_sample(nf_thread_context *context, nf_vm_thread *overhead_stack, nf_failure *failure) {
  if (!ready(context, failure)) return false;
  nf_vm_thread *current = nf_vm_current_thread();
  nf_cpu_clock current_clock = nf_cpu_clock_of(current);
  int64_t cpu_at_start = 0;
  bool cpu_at_start_known = nf_cpu_clock_read(current_clock, &cpu_at_start);
  int64_t wall_at_start = nf_time_monotonic_ns();

  see_all_threads(context);
  nf_thread_entry *current_entry = NULL;
  for (size_t i = 0; i < context->threads.count; i++) {
    nf_thread_entry *entry = context->threads.entries[i];
    int64_t cpu_now = 0;
    bool cpu_known;
    if (entry->vm_thread == current) { // what sampling costs it comes in the last sample
      current_entry = entry;
      cpu_now = cpu_at_start;
      cpu_known = cpu_at_start_known;
    } else {
      cpu_known = nf_cpu_clock_read(entry->cpu_clock, &cpu_now);
    }
    int64_t cpu = cpu_since_previous(context, entry, cpu_now, cpu_known);
    int64_t wall = since_previous(&entry->wall_time_at_previous_sample_ns, wall_at_start);
    sample_thread(context, entry, entry->vm_thread, false, cpu, wall);
  }

  if (current_entry == NULL || overhead_stack == NULL) return true;
  int64_t cpu_at_end = 0;
  bool cpu_at_end_known = nf_cpu_clock_read(current_clock, &cpu_at_end);
  int64_t cpu = cpu_since_previous(context, current_entry, cpu_at_end, cpu_at_end_known);
  int64_t wall = since_previous(&current_entry->wall_time_at_previous_sample_ns, nf_time_monotonic_ns());
  sample_thread(context, current_entry, overhead_stack, true, cpu, wall);
  return true;
}

bool nf_thread_context_reset_after_fork(nf_thread_context *context, nf_failure *failure) {
  nf_thread_table_clear(&context->threads);
  context->threads.created = context->threads_without_memory = context->cpu_clock_failures = 0;
  context->fork_generation = nf_fork_watch_generation();
  context->main_thread = nf_vm_thread_from(rb_thread_main());
  return context->recorder == NULL || nf_stack_recorder_reset_after_fork(context->recorder, failure);
}

// --- the Ruby class ---

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
  return object;
}

nf_thread_context *nf_thread_context_from(VALUE object) {
  nf_thread_context *context;
  TypedData_Get_Struct(object, nf_thread_context, &context_type, context);
  return context;
}

static VALUE native_initialize(VALUE self, VALUE object, VALUE recorder_object, VALUE max_frames) {
  (void)self;
  nf_thread_context *context = nf_thread_context_from(object);
  nf_stack_recorder *recorder = nf_stack_recorder_from(recorder_object);
  int frames = nf_stack_collector_check_max_frames(max_frames);
  if (context->stack != NULL) rb_raise(rb_eRuntimeError, "the ThreadContext is initialized already");
  nf_vm_thread *main_thread = nf_vm_thread_from(rb_thread_main());

  context->stack = nf_stack_collector_new(frames);
  if (context->stack == NULL) rb_memerror();
  context->recorder_object = recorder_object;
  context->recorder = recorder;
  context->main_thread = main_thread;
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
  nf_failure failure;
  if (!nf_thread_context_sample(nf_thread_context_from(object), NULL, &failure)) {
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
  }
  return all;
}

void nf_thread_context_define(VALUE collectors) {
  VALUE klass = rb_define_class_under(collectors, "ThreadContext", rb_cObject);
  rb_define_alloc_func(klass, context_allocate);
  rb_define_singleton_method(klass, "_native_initialize", native_initialize, 3);
  rb_define_singleton_method(klass, "_native_reset_after_fork", native_reset_after_fork, 1);
  rb_define_singleton_method(klass, "_native_begin_profile", native_begin_profile, 1);
  rb_define_singleton_method(klass, "_native_sample_all", native_sample_all, 1);
  rb_define_singleton_method(klass, "_native_stats", native_stats, 1);
  VALUE testing = rb_define_module_under(klass, "Testing");
  rb_define_singleton_method(testing, "_native_sample", testing_sample, 2);
  rb_define_singleton_method(testing, "_native_thread_list", testing_thread_list, 0);
  rb_define_singleton_method(testing, "_native_per_thread_context", testing_per_thread_context, 1);
}
