#ifndef NF_WORKER_STATS_H
#define NF_WORKER_STATS_H

// What the worker has done, for people who want to know why there are fewer samples than they expect.

#include <ruby.h>

#include <stdatomic.h>
#include <stdint.h>

typedef struct nf_worker_stats {
  // Counted without the GVL or in the signal handler.
  _Atomic uint64_t trigger_sample_attempts;
  _Atomic uint64_t trigger_simulated_signal_delivery_attempts;
  _Atomic uint64_t simulated_signal_delivery;
  _Atomic uint64_t signal_handler_enqueued_sample;
  _Atomic uint64_t postponed_job_skipped_already_existed;
  _Atomic uint64_t postponed_job_success;
  _Atomic uint64_t postponed_job_full;
  _Atomic uint64_t postponed_job_unknown_result;
  // Counted with the GVL.
  uint64_t cpu_sampled, cpu_skipped;
  uint64_t sampling_time_ns_min, sampling_time_ns_max, sampling_time_ns_total;
  uint64_t wrong_thread_before; // the global counter at the last reset
} nf_worker_stats;

static inline void nf_worker_count(_Atomic uint64_t *counter) {
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

void nf_worker_stats_reset(nf_worker_stats *stats);
void nf_worker_stats_add_sample(nf_worker_stats *stats, uint64_t took_ns);
VALUE nf_worker_stats_to_hash(const nf_worker_stats *stats, uint64_t signal_handler_wrong_thread);

#endif
