#ifndef NF_DISCRETE_DYNAMIC_SAMPLER_H
#define NF_DISCRETE_DYNAMIC_SAMPLER_H

// Chooses which of many discrete events (allocations) to sample: each N-th one on average. (The gaps vary by
// half of N, or a program that makes its objects in turn would always be met at the same one.) N is found
// anew once a second, or after a hundred samples, from how often events came and what a sample has cost, so
// that sampling takes about the target's share of the time; until it is first known, each event is sampled.
// No event is lost: the weight of a sample is the number of events since the one before.
//
// Not safe for several threads: the caller holds the GVL.

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct nf_discrete_sampler {
  double target;      // percent of the time, (0, 100]
  double probability; // of an event to be sampled, 0 to 1
  uint64_t interval;  // sample each interval-th event; 0: none
  uint64_t gap;       // from the last sample to the next; N on average
  uint64_t events_since_sample;
  uint32_t random;
  int64_t sample_started_ns;

  // Since the last readjustment.
  int64_t window_started_ns;
  uint64_t window_events, window_samples;
  int64_t window_sampling_ns;

  // Moving averages.
  bool has_events_average, has_sampling_average, has_adjustment;
  double events_per_ns, sampling_ns;
  double adjustment; // percent, 0 or less: what was spent above the target is saved later

  uint64_t clamped_windows;
} nf_discrete_sampler;

// The share is more than 0 and at most 100.
void nf_discrete_sampler_init(nf_discrete_sampler *sampler, double target_percentage, int64_t now_ns);
// Forgets what it has learnt. The next event is sampled.
void nf_discrete_sampler_reset(nf_discrete_sampler *sampler, int64_t now_ns);

// Once for each event. True: the caller takes a sample, and says so with `finish`. `now_ns` may come from a
// coarse clock.
bool nf_discrete_sampler_due(nf_discrete_sampler *sampler, int64_t now_ns);
// The sample that is about to be taken starts now, by a clock that is not coarse.
void nf_discrete_sampler_start(nf_discrete_sampler *sampler, int64_t now_ns);
// Returns how many events the sample stands for.
uint64_t nf_discrete_sampler_finish(nf_discrete_sampler *sampler, int64_t now_ns);

// Events since the last sample, for which none stands yet.
uint64_t nf_discrete_sampler_rest(const nf_discrete_sampler *sampler);

// Numbers by name, for stats.
VALUE nf_discrete_sampler_snapshot(const nf_discrete_sampler *sampler);

// Defines Datadog::Profiling::Collectors::DiscreteDynamicSampler (for tests).
void nf_discrete_sampler_define(VALUE collectors);

#endif
