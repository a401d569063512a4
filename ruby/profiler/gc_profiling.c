#include "gc_profiling.h"

#include "clock_id.h"
#include "thread_context_internal.h"
#include "time_helpers.h"

#define FLUSH_PERIOD_NS (10 * NF_MILLISECOND_NS)

typedef struct known_symbol {
  const char *name;
  ddog_CharSlice text;
  VALUE symbol; // static, so neither moved nor collected
} known_symbol;

#define KNOWN(name, text)                                                                                    \
  { name, {text, sizeof(text) - 1}, 0 }

static known_symbol reasons[] = {
    KNOWN("nofree", "not enough free slots (NOFREE)"),
    KNOWN("oldgen", "old generation full (OLDGEN)"),
    KNOWN("shady", "too many objects without write barriers (SHADY)"),
    KNOWN("force", "requested (FORCE)"),
    KNOWN("oldmalloc", "heap bytes allocated threshold (OLDMALLOC)"),
};

static known_symbol causes[] = {
    KNOWN("newobj", "object allocation"),
    KNOWN("malloc", "malloc()"),
    KNOWN("method", "GC.start()"),
    KNOWN("capi", "rb_gc()"),
    KNOWN("stress", "stress"),
};

static VALUE key_major_by, key_gc_by, key_state;
static VALUE state_none, state_marking, state_sweeping;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static VALUE symbol(const char *name) { return ID2SYM(rb_intern(name)); }

void nf_gc_profiling_init(void) {
  for (size_t i = 0; i < COUNT(reasons); i++) reasons[i].symbol = symbol(reasons[i].name);
  for (size_t i = 0; i < COUNT(causes); i++) causes[i].symbol = symbol(causes[i].name);
  key_major_by = symbol("major_by");
  key_gc_by = symbol("gc_by");
  key_state = symbol("state");
  state_none = symbol("none");
  state_marking = symbol("marking");
  state_sweeping = symbol("sweeping");
  rb_gc_latest_gc_info(key_state); // makes its own symbols at its first call
}

void nf_gc_tracking_reset(nf_gc_tracking *tracking) {
  *tracking =
      (nf_gc_tracking){.wall_at_previous_gc_ns = NF_NOT_KNOWN, .wall_at_last_flushed_gc_ns = NF_NOT_KNOWN};
}

// --- in the collector ---

void nf_gc_profiling_on_start(nf_thread_context *context) {
  if (context->sampling) return;
  nf_thread_entry *entry = nf_thread_context_current_entry(context);
  if (entry == NULL) {
    context->gc.missed++;
    return;
  }
  // Wall time outermost on both sides, so that it is never less than CPU time.
  entry->gc_wall_start_ns = nf_time_monotonic_ns();
  if (!nf_cpu_clock_read(entry->cpu_clock, &entry->gc_cpu_start_ns)) entry->gc_cpu_start_ns = NF_NOT_KNOWN;
}

bool nf_gc_profiling_on_finish(nf_thread_context *context) {
  nf_thread_entry *entry = nf_thread_context_current_entry(context);
  if (entry == NULL || entry->gc_wall_start_ns == NF_NOT_KNOWN) return false; // we did not see it start
  int64_t cpu_end = 0;
  bool cpu_known = nf_cpu_clock_read(entry->cpu_clock, &cpu_end) && entry->gc_cpu_start_ns != NF_NOT_KNOWN;
  int64_t cpu = cpu_known && cpu_end > entry->gc_cpu_start_ns ? cpu_end - entry->gc_cpu_start_ns : 0;
  int64_t wall_end = nf_time_monotonic_ns();
  int64_t wall = wall_end > entry->gc_wall_start_ns ? wall_end - entry->gc_wall_start_ns : 0;
  entry->gc_wall_start_ns = entry->gc_cpu_start_ns = NF_NOT_KNOWN;

  context->gc.accumulated_cpu_ns += cpu;
  context->gc.accumulated_wall_ns += wall;
  context->gc.wall_at_previous_gc_ns = wall_end;
  // To the thread itself it is as if its CPU clock had stood still meanwhile. Its wall time goes on.
  if (entry->cpu_time_at_previous_sample_ns != NF_NOT_KNOWN) entry->cpu_time_at_previous_sample_ns += cpu;

  bool major_is_over =
      rb_gc_latest_gc_info(key_state) == state_none && RTEST(rb_gc_latest_gc_info(key_major_by));
  return major_is_over || context->gc.wall_at_last_flushed_gc_ns == NF_NOT_KNOWN ||
         wall_end - context->gc.wall_at_last_flushed_gc_ns >= FLUSH_PERIOD_NS;
}

void nf_gc_profiling_forget_starts(nf_thread_context *context) {
  for (size_t i = 0; i < context->threads.count; i++) {
    nf_thread_entry *entry = context->threads.entries[i];
    entry->gc_cpu_start_ns = entry->gc_wall_start_ns = NF_NOT_KNOWN;
  }
}

// --- the sample ---

static ddog_CharSlice text_of(VALUE symbol, const known_symbol *known, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (known[i].symbol == symbol) return known[i].text;
  }
  return NF_SLICE("unknown");
}

static ddog_CharSlice type_of_gc(bool major, VALUE state) {
  if (!major) return NF_SLICE("minor");
  if (state == state_marking) return NF_SLICE("major (ongoing, marking)");
  if (state == state_sweeping) return NF_SLICE("major (ongoing, sweeping)");
  return NF_SLICE("major");
}

bool nf_gc_profiling_sample(nf_thread_context *context, nf_failure *failure) {
  nf_gc_tracking *gc = &context->gc;
  if (gc->wall_at_previous_gc_ns == NF_NOT_KNOWN) {
    return nf_failure_set(failure, "no garbage collection has been seen since the last sample of it");
  }
  VALUE major_by = rb_gc_latest_gc_info(key_major_by);
  bool major = RTEST(major_by);
  ddog_prof_Label labels[7];
  size_t count = 0;
  labels[count++] = nf_text_label(NF_SLICE("thread id"), NF_SLICE("GC"));
  labels[count++] = nf_text_label(NF_SLICE("thread name"), NF_SLICE("Garbage Collection"));
  labels[count++] = nf_text_label(NF_SLICE("state"), NF_SLICE("had cpu"));
  labels[count++] = nf_text_label(NF_SLICE("event"), NF_SLICE("gc"));
  labels[count++] =
      nf_text_label(NF_SLICE("gc cause"), text_of(rb_gc_latest_gc_info(key_gc_by), causes, COUNT(causes)));
  labels[count++] = nf_text_label(NF_SLICE("gc type"), type_of_gc(major, rb_gc_latest_gc_info(key_state)));
  if (major)
    labels[count++] = nf_text_label(NF_SLICE("gc reason"), text_of(major_by, reasons, COUNT(reasons)));

  nf_sample_values values = {{0}};
  values.value[NF_VALUE_CPU_TIME] = gc->accumulated_cpu_ns;
  values.value[NF_VALUE_CPU_SAMPLES] = 1;
  values.value[NF_VALUE_WALL_TIME] = gc->accumulated_wall_ns;
  values.value[NF_VALUE_TIMELINE] = gc->accumulated_wall_ns;
  int64_t timestamp = nf_thread_context_timestamp(context, gc->wall_at_previous_gc_ns);
  nf_failure refusal; // counted by the recorder
  nf_stack_collector_sample_text(context->stack, NF_SLICE("Garbage Collection"), context->recorder, &values,
                                 labels, count, timestamp, &refusal);
  gc->samples++;
  gc->wall_at_last_flushed_gc_ns = gc->wall_at_previous_gc_ns;
  gc->wall_at_previous_gc_ns = NF_NOT_KNOWN;
  gc->accumulated_cpu_ns = gc->accumulated_wall_ns = 0;
  return true;
}
