#include "worker_stats.h"

void nf_worker_stats_reset(nf_worker_stats *stats) {
  atomic_store(&stats->trigger_sample_attempts, 0);
  atomic_store(&stats->trigger_simulated_signal_delivery_attempts, 0);
  atomic_store(&stats->simulated_signal_delivery, 0);
  atomic_store(&stats->signal_handler_enqueued_sample, 0);
  atomic_store(&stats->postponed_job_skipped_already_existed, 0);
  atomic_store(&stats->postponed_job_success, 0);
  atomic_store(&stats->postponed_job_full, 0);
  atomic_store(&stats->postponed_job_unknown_result, 0);
  stats->cpu_sampled = stats->cpu_skipped = 0;
  stats->sampling_time_ns_min = UINT64_MAX;
  stats->sampling_time_ns_max = stats->sampling_time_ns_total = 0;
}

void nf_worker_stats_add_sample(nf_worker_stats *stats, uint64_t took_ns) {
  stats->cpu_sampled++;
  if (took_ns < stats->sampling_time_ns_min) stats->sampling_time_ns_min = took_ns;
  if (took_ns > stats->sampling_time_ns_max) stats->sampling_time_ns_max = took_ns;
  stats->sampling_time_ns_total += took_ns;
}

static void set(VALUE hash, const char *key, VALUE value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(key)), value);
}

static VALUE count(const _Atomic uint64_t *counter) {
  return ULL2NUM(atomic_load((_Atomic uint64_t *)counter));
}

VALUE nf_worker_stats_to_hash(const nf_worker_stats *stats, uint64_t signal_handler_wrong_thread) {
  uint64_t sampled = stats->cpu_sampled, seen = sampled + stats->cpu_skipped;
  VALUE hash = rb_hash_new();
  set(hash, "trigger_sample_attempts", count(&stats->trigger_sample_attempts));
  set(hash, "trigger_simulated_signal_delivery_attempts",
      count(&stats->trigger_simulated_signal_delivery_attempts));
  set(hash, "simulated_signal_delivery", count(&stats->simulated_signal_delivery));
  set(hash, "signal_handler_enqueued_sample", count(&stats->signal_handler_enqueued_sample));
  set(hash, "signal_handler_wrong_thread", ULL2NUM(signal_handler_wrong_thread));
  set(hash, "postponed_job_skipped_already_existed", count(&stats->postponed_job_skipped_already_existed));
  set(hash, "postponed_job_success", count(&stats->postponed_job_success));
  set(hash, "postponed_job_full", count(&stats->postponed_job_full));
  set(hash, "postponed_job_unknown_result", count(&stats->postponed_job_unknown_result));
  set(hash, "cpu_sampled", ULL2NUM(sampled));
  set(hash, "cpu_skipped", ULL2NUM(stats->cpu_skipped));
  set(hash, "cpu_effective_sample_rate", seen ? DBL2NUM((double)sampled / (double)seen) : Qnil);
  set(hash, "cpu_sampling_time_ns_min", sampled ? ULL2NUM(stats->sampling_time_ns_min) : Qnil);
  set(hash, "cpu_sampling_time_ns_max", sampled ? ULL2NUM(stats->sampling_time_ns_max) : Qnil);
  set(hash, "cpu_sampling_time_ns_total", sampled ? ULL2NUM(stats->sampling_time_ns_total) : Qnil);
  set(hash, "cpu_sampling_time_ns_avg",
      sampled ? DBL2NUM((double)stats->sampling_time_ns_total / (double)sampled) : Qnil);
  return hash;
}
