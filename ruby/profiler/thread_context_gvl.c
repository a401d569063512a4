// What waiting for the GVL changes about samples of threads.

#include "thread_context_internal.h"

// Threads that wait for less go unmentioned: at some moment each of them waits.
#define LONG_WAIT_NS (10 * NF_MILLISECOND_NS)

void nf_thread_context_watch_gvl(nf_thread_context *context) {
  if (context->gvl_enabled) nf_gvl_watch_enable(context, LONG_WAIT_NS);
}

bool nf_thread_context_may_skip(nf_thread_context *context, nf_thread_entry *entry, int64_t now) {
  if (!nf_gvl_watch_enabled(context)) return false;
  nf_gvl_state state = nf_gvl_watch_state_of(entry->vm_thread);
  bool known = entry->wall_time_at_previous_sample_ns != NF_NOT_KNOWN && entry->gvl_is_known;
  bool unchanged = state.runs == entry->gvl.runs && state.waiting_since_ns == entry->gvl.waiting_since_ns &&
                   state.wait_finish_ns == entry->gvl.wait_finish_ns;
  // One that has just begun to wait may get its turn in a moment: then nothing has happened.
  bool undecided = state.runs == entry->gvl.runs && state.waiting_since_ns != 0 &&
                   now - state.waiting_since_ns < LONG_WAIT_NS;
  return known && (unchanged || undecided);
}

// The part of the thread's time from `from` to `to`, which it spent waiting, if that was long enough.
static bool wait_within(const nf_gvl_state *state, int64_t from, int64_t to, int64_t *start,
                        int64_t *finish) {
  *finish = to;
  *start = state->waiting_since_ns;
  if (*start == 0 || to - *start < LONG_WAIT_NS) {
    *start = state->wait_start_ns;
    *finish = state->wait_finish_ns;
  }
  if (*start < from) *start = from;
  return *start != 0 && *start < *finish && *finish <= to;
}

bool nf_thread_context_sample_wait(nf_thread_context *context, nf_thread_entry *entry, int64_t *cpu_ns,
                                   int64_t now) {
  if (!nf_gvl_watch_enabled(context)) return false;
  nf_gvl_state state = nf_gvl_watch_state_of(entry->vm_thread);
  entry->gvl = state;
  entry->gvl_is_known = true;
  int64_t from = entry->wall_time_at_previous_sample_ns, start, finish;
  if (from == NF_NOT_KNOWN || !wait_within(&state, from, now, &start, &finish)) return false;

  nf_thread_sample sample = {.entry = entry, .stack_of = entry->vm_thread};
  if (start > from) { // until it began to wait
    sample.wall_ns = start - from;
    sample.timestamp = nf_thread_context_timestamp(context, start);
    sample.cpu_ns = *cpu_ns;
    *cpu_ns = 0;
    nf_thread_context_record(context, &sample);
  }
  sample.wall_ns = finish - start;
  sample.timestamp = nf_thread_context_timestamp(context, finish);
  sample.cpu_ns = 0;
  sample.waiting_for_gvl = true;
  nf_thread_context_record(context, &sample);
  entry->wall_time_at_previous_sample_ns = finish;
  return true;
}

// The waits that are over; what the threads have done since belongs to their next samples.
void nf_thread_context_sample_after_wait(nf_thread_context *context) {
  nf_failure failure;
  if (!nf_thread_context_ready(context, &failure)) return;
  context->sampling = true;
  for (size_t i = 0; i < context->threads.count; i++) {
    nf_thread_entry *entry = context->threads.entries[i];
    if (!nf_vm_thread_alive(entry->vm_thread)) continue;
    nf_gvl_state state = nf_gvl_watch_state_of(entry->vm_thread);
    if (state.wait_finish_ns == 0 || state.wait_finish_ns == entry->gvl.wait_finish_ns) continue;
    int64_t cpu = nf_thread_context_cpu_since_previous(context, entry);
    if (nf_thread_context_sample_wait(context, entry, &cpu, state.wait_finish_ns)) {
      entry->gvl.runs = state.runs - 1; // it has run since
      context->gvl_waits++;
    }
    if (cpu > 0) entry->cpu_time_at_previous_sample_ns -= cpu; // for the next sample
  }
  context->sampling = false;
}
