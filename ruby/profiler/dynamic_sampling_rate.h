#ifndef NF_DYNAMIC_SAMPLING_RATE_H
#define NF_DYNAMIC_SAMPLING_RATE_H

// Keeps the cost of sampling near a target: after a sample that took t, the next one is due only when so much
// time has passed that t is the target's share of it. Safe to ask from one thread while another reports
// samples.

#include <ruby.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct nf_sampling_rate {
  double overhead_target_percentage;    // (0, 100]
  _Atomic int64_t next_sample_after_ns; // monotonic
} nf_sampling_rate;

void nf_sampling_rate_init(nf_sampling_rate *rate, double overhead_target_percentage);
void nf_sampling_rate_reset(nf_sampling_rate *rate); // the next sample is due at once

bool nf_sampling_rate_due(const nf_sampling_rate *rate, int64_t now_ns);
int64_t nf_sampling_rate_sleep_ns(const nf_sampling_rate *rate, int64_t now_ns); // 0 to 100 ms
void nf_sampling_rate_after_sample(nf_sampling_rate *rate, int64_t finished_at_ns, int64_t took_ns);

// Defines Datadog::Profiling::Collectors::DynamicSamplingRate (for tests).
void nf_sampling_rate_define(VALUE collectors);

#endif
