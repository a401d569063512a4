#include "heap_hook.h"

#include <ruby/debug.h>

static nf_heap_recorder *recorders; // linked through their `next`
static bool attached;
static uint64_t freed;                 // objects that we were told of
static uint64_t freed_base, told_base; // where comparing these counts began
static uint64_t missed;

static VALUE freed_key, final_key, made_key;

// Objects that the VM has begun to free: those that wait for their finalizer are counted later.
static uint64_t freed_by_vm(void) { return rb_gc_stat(freed_key) + rb_gc_stat(final_key); }

static void on_freed_object(VALUE data, const rb_trace_arg_t *event) {
  (void)data;
  freed++;
  VALUE object = rb_tracearg_object((rb_trace_arg_t *)event);
  for (nf_heap_recorder *recorder = recorders; recorder != NULL; recorder = recorder->next) {
    nf_heap_recorder_forget(recorder, object);
  }
}

void nf_heap_hook_new_object(VALUE object) {
  for (nf_heap_recorder *recorder = recorders; recorder != NULL; recorder = recorder->next) {
    nf_heap_recorder_forget(recorder, object);
  }
}

// From the end of marking to where the program goes on nothing is made: what the VM had counted at its start.
static uint64_t made_when_marked;
static bool nothing_made;

static void on_collection(VALUE data, const rb_trace_arg_t *event) {
  (void)data;
  nothing_made = rb_tracearg_event_flag((rb_trace_arg_t *)event) == RUBY_INTERNAL_EVENT_GC_END_MARK;
  if (nothing_made) made_when_marked = rb_gc_stat(made_key);
}

// What hooks with a raw argument are really called with.
typedef void raw_hook(VALUE data, const rb_trace_arg_t *event);

static rb_event_hook_func_t as_hook(raw_hook *function) {
  return (rb_event_hook_func_t)(void (*)(void))function;
}

static void hook_into(rb_event_flag_t events, raw_hook *function) {
  rb_add_event_hook2(as_hook(function), events, Qnil,
                     RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG);
}

static void compare_from_now(void) {
  freed_base = freed_by_vm();
  told_base = freed;
}

// In the middle of a GC the VM's count lags behind: it counts by pages. So being ahead of it says nothing.
uint64_t nf_heap_hook_missed(void) {
  if (attached && freed - told_base < freed_by_vm() - freed_base) {
    missed++;
    compare_from_now();
  }
  return missed;
}

void nf_heap_hook_compacted(void) {
  if (!nothing_made) return; // not known: where moves are counted, some will seem to be missed
  uint64_t made = rb_gc_stat(made_key);
  freed_base += made - made_when_marked;
  made_when_marked = made;
}

void nf_heap_hook_pretend_missed(void) { missed++; }

static void detach_if_idle(void) {
  if (recorders != NULL || !attached) return;
  rb_remove_event_hook_with_data(as_hook(on_freed_object), Qnil);
  rb_remove_event_hook_with_data(as_hook(on_collection), Qnil);
  nothing_made = false;
  attached = false;
}

void nf_heap_hook_add(nf_heap_recorder *recorder) {
  if (freed_key == 0) {
    freed_key = ID2SYM(rb_intern("total_freed_objects"));
    final_key = ID2SYM(rb_intern("heap_final_slots"));
    made_key = ID2SYM(rb_intern("total_allocated_objects"));
    compare_from_now(); // the first question makes symbols
  }
  detach_if_idle();
  if (!attached) {
    hook_into(RUBY_INTERNAL_EVENT_GC_END_MARK | RUBY_INTERNAL_EVENT_GC_EXIT, on_collection);
    hook_into(RUBY_INTERNAL_EVENT_FREEOBJ, on_freed_object); // last, as this may raise: twice would be wrong
    attached = true;
    compare_from_now();
  }
  if (recorder->watching) return;
  recorder->missed = nf_heap_hook_missed();
  recorder->next = recorders;
  recorder->watching = true;
  recorders = recorder;
}

void nf_heap_hook_forget(nf_heap_recorder *recorder) {
  if (!recorder->watching) return;
  nf_heap_recorder **link = &recorders;
  while (*link != recorder) link = &(*link)->next;
  *link = recorder->next;
  recorder->watching = false;
}

void nf_heap_hook_remove(nf_heap_recorder *recorder) {
  nf_heap_hook_forget(recorder);
  detach_if_idle();
}

void nf_heap_hook_end(void) {
  while (recorders != NULL) nf_heap_recorder_end(recorders); // takes itself off
  detach_if_idle();
}

bool nf_heap_hook_attached(void) { return attached; }
