#include "thread_context_internal.h"

#include "clock_id.h"
#include "fork_watch.h"
#include "gc_hook.h"
#include "time_helpers.h"

#include <string.h>

// Those of the thread, state, profiler overhead.
#define MAX_LABELS (NF_THREAD_LABELS_MAX + 2)

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
  entry->birthplace = nf_copy_of_text(text); // NULL: shown without a name
  entry->birthplace_length = entry->birthplace ? strlen(entry->birthplace) : 0;
}

nf_thread_entry *nf_thread_context_entry_of(nf_thread_context *context, nf_vm_thread *vm_thread) {
  VALUE thread = nf_vm_thread_object(vm_thread);
  nf_thread_entry *entry = nf_thread_table_find(&context->threads, thread);
  if (entry != NULL) return entry;
  entry = nf_thread_table_add(&context->threads, thread);
  if (entry == NULL) {
    context->threads_without_memory++;
    return NULL;
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
  return entry;
}

nf_thread_entry *nf_thread_context_current_entry(nf_thread_context *context) {
  return nf_thread_table_find(&context->threads, nf_vm_thread_object(nf_vm_current_thread()));
}

// First part of a pass: makes sure that every thread has an entry. A thread's object id may need memory of
// Ruby, which may start a GC: that is why no frame has been looked at yet.
static void see_thread(nf_vm_thread *vm_thread, void *data) {
  nf_thread_context *context = data;
  if (nf_vm_thread_tid(vm_thread) == 0) return; // created, but its native thread has not run yet
  nf_thread_entry *entry = nf_thread_context_entry_of(context, vm_thread);
  if (entry != NULL) entry->seen_in_pass = context->pass;
}

// --- sampling ---

static ddog_CharSlice name_of(const nf_thread_context *context, const nf_thread_entry *entry) {
  VALUE name = nf_vm_thread_name(entry->vm_thread);
  if (!NIL_P(name)) return nf_slice_of(name);
  if (entry->vm_thread == context->main_thread) return NF_SLICE("main");
  if (entry->birthplace) return nf_slice_of_text(entry->birthplace, entry->birthplace_length);
  return NF_SLICE("");
}

size_t nf_thread_context_labels(nf_thread_context *context, const nf_thread_entry *entry,
                                ddog_prof_Label *labels) {
  labels[0] = nf_text_label(NF_SLICE("thread id"), nf_slice_of_text(entry->id, entry->id_length));
  labels[1] = nf_text_label(NF_SLICE("thread name"), name_of(context, entry));
  nf_trace trace;
  if (!nf_trace_context_of(&context->traces, entry->vm_thread, &trace)) return 2;
  labels[2] = nf_number_label(NF_SLICE("local root span id"), (int64_t)trace.local_root_span_id);
  labels[3] = nf_number_label(NF_SLICE("span id"), (int64_t)trace.span_id);
  if (!NIL_P(trace.endpoint)) {
    nf_stack_recorder_set_endpoint(context->recorder, trace.local_root_span_id, nf_slice_of(trace.endpoint));
  }
  return 4;
}

int64_t nf_thread_context_timestamp(nf_thread_context *context, int64_t monotonic_ns) {
  return context->timeline_enabled ? nf_epoch_ns(&context->epoch, monotonic_ns) : 0;
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
  // A thread that collects garbage is only charged for what it did before; see nf_gc_profiling_on_finish.
  if (entry->gc_cpu_start_ns != NF_NOT_KNOWN && entry->gc_cpu_start_ns < now) now = entry->gc_cpu_start_ns;
  return since_previous(&entry->cpu_time_at_previous_sample_ns, now);
}

int64_t nf_thread_context_cpu_since_previous(nf_thread_context *context, nf_thread_entry *entry) {
  int64_t now = 0;
  bool known = nf_cpu_clock_read(entry->cpu_clock, &now);
  return cpu_since_previous(context, entry, now, known);
}

void nf_thread_context_record(nf_thread_context *context, const nf_thread_sample *sample) {
  nf_sample_values values = {{0}};
  values.value[NF_VALUE_CPU_TIME] = sample->cpu_ns;
  values.value[NF_VALUE_CPU_SAMPLES] = 1;
  values.value[NF_VALUE_WALL_TIME] = sample->wall_ns;

  ddog_prof_Label labels[MAX_LABELS];
  size_t count = nf_thread_context_labels(context, sample->entry, labels);
  if (sample->overhead) labels[count++] = nf_number_label(NF_SLICE("profiler overhead"), 1);
  ddog_prof_Label *state = &labels[count++];
  *state =
      nf_text_label(NF_SLICE("state"), sample->waiting_for_gvl ? NF_STATE_WAITING_FOR_GVL : NF_SLICE(""));
  nf_failure refusal;
  nf_stack_collector_sample(context->stack, sample->stack_of, context->recorder, &values, labels, count,
                            state, sample->timestamp, &refusal);
}

bool nf_thread_context_ready(nf_thread_context *context, nf_failure *failure) {
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
  if (!nf_thread_context_ready(context, failure)) return false;
  see_all_threads(context);
  int64_t now = nf_time_monotonic_ns();
  for (size_t i = 0; i < context->threads.count; i++) {
    nf_thread_entry *entry = context->threads.entries[i];
    if (!nf_cpu_clock_read(entry->cpu_clock, &entry->cpu_time_at_previous_sample_ns)) {
      entry->cpu_time_at_previous_sample_ns = NF_NOT_KNOWN;
    }
    entry->wall_time_at_previous_sample_ns = now;
    entry->gc_cpu_start_ns = entry->gc_wall_start_ns = NF_NOT_KNOWN;
    entry->gvl_is_known = false;
  }
  nf_gc_tracking_reset(&context->gc);
  return true;
}

typedef enum which_threads { CHANGED, ALL, SKIPPED } which_threads;

// One pass. Returns the entry of the current thread, if it was sampled.
static nf_thread_entry *sample_threads(nf_thread_context *context, which_threads which) {
  nf_vm_thread *current = nf_vm_current_thread();
  int64_t cpu_at_start = 0;
  bool cpu_at_start_known = nf_cpu_clock_read(nf_cpu_clock_of(current), &cpu_at_start);
  int64_t wall_at_start = nf_time_monotonic_ns();
  int64_t timestamp = nf_thread_context_timestamp(context, wall_at_start);

  context->sampling = true;
  if (context->traces.find_tracer) nf_trace_context_find_tracer(&context->traces);
  see_all_threads(context);
  nf_thread_entry *current_entry = NULL;
  for (size_t i = 0; i < context->threads.count; i++) {
    nf_thread_entry *entry = context->threads.entries[i];
    bool is_current = entry->vm_thread == current;
    if (which != ALL) {
      bool skip = !is_current && nf_thread_context_may_skip(context, entry, wall_at_start);
      if (skip && which == CHANGED) context->threads_skipped++;
      if (skip == (which == CHANGED)) continue;
    }
    int64_t cpu;
    if (is_current) { // what sampling costs it comes in the last sample
      current_entry = entry;
      cpu = cpu_since_previous(context, entry, cpu_at_start, cpu_at_start_known);
    } else {
      cpu = nf_thread_context_cpu_since_previous(context, entry);
    }
    bool has_waited = nf_thread_context_sample_wait(context, entry, &cpu, wall_at_start);
    int64_t wall = since_previous(&entry->wall_time_at_previous_sample_ns, wall_at_start);
    if (has_waited && wall == 0 && cpu == 0) continue; // and still does
    nf_thread_sample sample = {
        .entry = entry, .stack_of = entry->vm_thread, .cpu_ns = cpu, .wall_ns = wall, .timestamp = timestamp};
    nf_thread_context_record(context, &sample);
  }
  context->sampling = false;
  return current_entry;
}

bool nf_thread_context_sample(nf_thread_context *context, nf_vm_thread *overhead_stack, nf_failure *failure) {
  if (!nf_thread_context_ready(context, failure)) return false;
  nf_thread_entry *current = sample_threads(context, CHANGED);
  if (current == NULL) return true;
  int64_t cpu = nf_thread_context_cpu_since_previous(context, current);
  int64_t now = nf_time_monotonic_ns();
  nf_thread_sample sample = {
      .entry = current,
      .stack_of = overhead_stack,
      .overhead = true,
      .cpu_ns = cpu,
      .wall_ns = since_previous(&current->wall_time_at_previous_sample_ns, now),
      .timestamp = nf_thread_context_timestamp(context, now),
  };
  nf_thread_context_record(context, &sample);
  nf_gc_hook_revive(context);
  return true;
}

bool nf_thread_context_sample_all(nf_thread_context *context, nf_failure *failure) {
  if (!nf_thread_context_ready(context, failure)) return false;
  sample_threads(context, ALL);
  return true;
}

bool nf_thread_context_sample_skipped(nf_thread_context *context, nf_failure *failure) {
  if (!nf_thread_context_ready(context, failure)) return false;
  if (nf_gvl_watch_enabled(context)) sample_threads(context, SKIPPED);
  return true;
}

bool nf_thread_context_reset_after_fork(nf_thread_context *context, nf_failure *failure) {
  nf_thread_table_clear(&context->threads);
  context->threads.created = context->threads_without_memory = context->cpu_clock_failures = 0;
  context->threads_skipped = context->gvl_waits = 0;
  context->epoch.measured_at_ns = 0;
  context->sampling = false;
  nf_gc_tracking_reset(&context->gc);
  context->fork_generation = nf_fork_watch_generation();
  context->main_thread = nf_vm_thread_from(rb_thread_main());
  return context->recorder == NULL || nf_stack_recorder_reset_after_fork(context->recorder, failure);
}
