#include "allocation_hook.h"

#include "heap_hook.h"
#include "postponed_job.h"
#include "private_vm_access.h"
#include "time_helpers.h"

#include <ruby/debug.h>

#include <errno.h>
#include <stdatomic.h>

static nf_allocation_hook *_Atomic listener; // NULL: nobody. Changes under the GVL (or in a new child)
static bool attached;                        // GVL: the VM calls us
static uint64_t told, told_at_check;         // objects that the VM told us of
static uint64_t made_at_check;               // objects by its own count
static VALUE made_key;
static nf_postponed_job job;

// So many objects that we are not told of are no chance: other Ractors' and nested ones are few, or none.
#define SILENT_OBJECTS 10000

static _Thread_local uint64_t allocation_count; // starts again from 0 after its maximum

static nf_allocation_hook *current_listener(void) {
  return atomic_load_explicit(&listener, memory_order_relaxed);
}

// Runs soon after a thread that no sample has seen yet allocates something: gives it an id, which may need
// memory of Ruby.
static void see_thread_job(void *argument) {
  (void)argument;
  int saved_errno = errno;
  nf_allocation_hook *hook = nf_vm_on_main_ractor() ? current_listener() : NULL;
  if (hook != NULL && !*hook->during_sample) {
    *hook->during_sample = true;
    nf_thread_context_see_current(hook->context);
    *hook->during_sample = false;
  }
  errno = saved_errno;
}

static void add_time(nf_allocation_hook *hook, int64_t took) {
  uint64_t time = took > 0 ? (uint64_t)took : 0;
  hook->stats.sampled++;
  if (time < hook->stats.time_ns_min) hook->stats.time_ns_min = time;
  if (time > hook->stats.time_ns_max) hook->stats.time_ns_max = time;
  hook->stats.time_ns_total += time;
}

static void begin_again(nf_allocation_hook *hook, int64_t start, int64_t finish) {
  if (!hook->dynamic_rate) return;
  nf_discrete_sampler_start(&hook->sampler, start);
  nf_discrete_sampler_finish(&hook->sampler, finish);
}

// An allocation that cannot be looked into was to stand for so many. Given to another sample, these would be
// said to be where they have not been.
static void skip_sample(nf_allocation_hook *hook, uint64_t weight, int64_t start) {
  hook->stats.skipped++;
  *hook->during_sample = true;
  nf_thread_context_skip_allocations(hook->context, weight);
  *hook->during_sample = false;
  begin_again(hook, start, nf_time_monotonic_ns());
}

static void take_sample(nf_allocation_hook *hook, VALUE object) {
  int64_t start = nf_time_monotonic_ns();
  uint64_t weight = hook->dynamic_rate ? hook->sampler.events_since_sample : 1;
  // What runs when an exception is half raised is not ours to look into.
  if (nf_vm_thread_raising(nf_vm_current_thread())) {
    skip_sample(hook, weight, start);
    return;
  }
  nf_failure failure;
  *hook->during_sample = true;
  nf_allocation_result result = nf_thread_context_sample_allocation(hook->context, object, weight, &failure);
  *hook->during_sample = false;
  if (result == NF_ALLOCATION_OF_UNKNOWN_THREAD) {
    skip_sample(hook, weight, start);
    // If the VM has no room for it, the next allocation asks again.
    nf_postponed_job_trigger(&job);
    return;
  }
  if (result == NF_ALLOCATION_FAILED) {
    atomic_store_explicit(&listener, NULL, memory_order_relaxed);
    hook->on_failure(hook->owner, &failure);
    return;
  }
  int64_t finish = nf_time_monotonic_ns();
  begin_again(hook, start, finish);
  add_time(hook, finish - start);
}

static void remove_hook(void);

static void on_new_object(VALUE data, const rb_trace_arg_t *event) {
  (void)data;
  allocation_count++;
  told++;
  if (!nf_vm_on_main_ractor()) return;
  nf_allocation_hook *hook = current_listener();
  if (hook == NULL) { // left on by a fork: nobody in this process wants to know
    remove_hook();
    return;
  }
  VALUE object = rb_tracearg_object((rb_trace_arg_t *)event);
  nf_heap_hook_new_object(object);
  if (*hook->during_sample || nf_vm_at_work()) {
    hook->stats.during_sample++;
    return;
  }
  if (hook->dynamic_rate && !nf_discrete_sampler_due(&hook->sampler, nf_time_coarse_ns())) {
    hook->stats.skipped++;
    return;
  }
  int saved_errno = errno;
  take_sample(hook, object);
  errno = saved_errno;
}

// --- attaching ---

void nf_allocation_hook_define_job(void) { nf_postponed_job_define(&job, see_thread_job); }

static rb_event_hook_func_t as_hook(void) {
  // What hooks with a raw argument are really called with.
  void (*function)(VALUE, const rb_trace_arg_t *) = on_new_object;
  return (rb_event_hook_func_t)(void (*)(void))function;
}

static VALUE add_hook(VALUE unused) {
  (void)unused;
  rb_add_event_hook2(as_hook(), RUBY_INTERNAL_EVENT_NEWOBJ, Qnil,
                     RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG);
  attached = true;
  return Qnil;
}

static void remove_hook(void) {
  rb_remove_event_hook_with_data(as_hook(), Qnil);
  attached = false;
}

void nf_allocation_hook_attach(nf_allocation_hook *hook) {
  if (!hook->enabled) return;
  remove_hook(); // one that is there twice is called twice, and a fork may have left it
  nf_discrete_sampler_reset(&hook->sampler, nf_time_monotonic_ns());
  made_key = ID2SYM(rb_intern("total_allocated_objects"));
  made_at_check = rb_gc_stat(made_key);
  told_at_check = told;
  nf_thread_context_watch_objects(hook->context, true);
  atomic_store_explicit(&listener, hook, memory_order_relaxed);
  add_hook(Qnil);
}

void nf_allocation_hook_revive(nf_allocation_hook *hook) {
  if (!hook->enabled || current_listener() != hook) return;
  uint64_t made = rb_gc_stat(made_key);
  if (told == told_at_check) {
    if (made - made_at_check < SILENT_OBJECTS) return;
    int raised = 0;
    VALUE error = rb_errinfo();
    remove_hook();
    rb_protect(add_hook, Qnil, &raised);
    if (raised) rb_set_errinfo(error); // no memory; the next time, perhaps
    hook->stats.revived++;
  }
  told_at_check = told;
  made_at_check = made;
}

void nf_allocation_hook_end(void) {
  atomic_store_explicit(&listener, NULL, memory_order_relaxed);
  remove_hook();
}

void nf_allocation_hook_lose(void) { rb_remove_event_hook_with_data(as_hook(), Qnil); }

void nf_allocation_hook_detach(nf_allocation_hook *hook) {
  if (!hook->enabled) return;
  if (current_listener() == hook && hook->dynamic_rate) { // no sample will come that could stand for these
    nf_thread_context_skip_allocations(hook->context, nf_discrete_sampler_rest(&hook->sampler));
  }
  nf_allocation_hook_forget(hook);
  nf_thread_context_watch_objects(hook->context, false);
  if (current_listener() == NULL) remove_hook();
}

void nf_allocation_hook_forget(const nf_allocation_hook *hook) {
  if (current_listener() == hook) atomic_store_explicit(&listener, NULL, memory_order_relaxed);
}

void nf_allocation_hook_forget_after_fork(void) {
  atomic_store_explicit(&listener, NULL, memory_order_relaxed);
}

bool nf_allocation_hook_attached(void) { return attached; }

VALUE nf_allocation_count(void) { return current_listener() != NULL ? ULL2NUM(allocation_count) : Qnil; }

// --- stats ---

void nf_allocation_hook_reset_stats(nf_allocation_hook *hook) {
  hook->stats.sampled = hook->stats.skipped = hook->stats.during_sample = hook->stats.revived = 0;
  hook->stats.time_ns_min = UINT64_MAX;
  hook->stats.time_ns_max = hook->stats.time_ns_total = 0;
}

static void set(VALUE hash, const char *key, VALUE value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(key)), value);
}

void nf_allocation_hook_stats(const nf_allocation_hook *hook, VALUE hash) {
  bool enabled = hook->enabled;
  uint64_t sampled = enabled ? hook->stats.sampled : 0;
  uint64_t seen = sampled + (enabled ? hook->stats.skipped : 0);
  set(hash, "allocation_sampled", enabled ? ULL2NUM(sampled) : Qnil);
  set(hash, "allocation_skipped", enabled ? ULL2NUM(hook->stats.skipped) : Qnil);
  set(hash, "allocation_effective_sample_rate", seen ? DBL2NUM((double)sampled / (double)seen) : Qnil);
  set(hash, "allocation_sampling_time_ns_min", sampled ? ULL2NUM(hook->stats.time_ns_min) : Qnil);
  set(hash, "allocation_sampling_time_ns_max", sampled ? ULL2NUM(hook->stats.time_ns_max) : Qnil);
  set(hash, "allocation_sampling_time_ns_total", sampled ? ULL2NUM(hook->stats.time_ns_total) : Qnil);
  set(hash, "allocation_sampling_time_ns_avg",
      sampled ? DBL2NUM((double)hook->stats.time_ns_total / (double)sampled) : Qnil);
  set(hash, "allocation_sampler_snapshot", enabled ? nf_discrete_sampler_snapshot(&hook->sampler) : Qnil);
  set(hash, "allocation_hook_revived", enabled ? ULL2NUM(hook->stats.revived) : Qnil);
  set(hash, "allocations_during_sample", enabled ? ULL2NUM(hook->stats.during_sample) : Qnil);
}
