#ifndef NF_TIME_HELPERS_H
#define NF_TIME_HELPERS_H

#include <datadog/profiling.h>

#include <stdint.h>
#include <time.h>

#define NF_SECOND_NS INT64_C(1000000000)
#define NF_MILLISECOND_NS INT64_C(1000000)

// These two clocks cannot fail on Linux: clock_gettime only refuses clocks that do not exist and bad
// pointers.
static inline int64_t nf_time_monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * NF_SECOND_NS + now.tv_nsec;
}

// The same clock as of the last tick (a few milliseconds ago at most), for a quarter of the price.
static inline int64_t nf_time_coarse_ns(void) {
  struct timespec now;
#ifdef CLOCK_MONOTONIC_COARSE
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
#else
  clock_gettime(CLOCK_MONOTONIC, &now);
#endif
  return (int64_t)now.tv_sec * NF_SECOND_NS + now.tv_nsec;
}

static inline ddog_Timespec nf_time_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (ddog_Timespec){.seconds = now.tv_sec, .nanoseconds = (uint32_t)now.tv_nsec};
}

// Turns monotonic time into nanoseconds since 1970. Clocks are set and drift apart, so their distance is
// measured again each minute.
typedef struct nf_epoch_clock {
  int64_t distance_ns;
  int64_t measured_at_ns; // 0: never
} nf_epoch_clock;

static inline int64_t nf_epoch_ns(nf_epoch_clock *clock, int64_t monotonic_ns) {
  if (clock->measured_at_ns == 0 || monotonic_ns - clock->measured_at_ns >= 60 * NF_SECOND_NS) {
    ddog_Timespec epoch = nf_time_now();
    int64_t now = nf_time_monotonic_ns();
    clock->distance_ns = epoch.seconds * NF_SECOND_NS + epoch.nanoseconds - now;
    clock->measured_at_ns = now;
  }
  return monotonic_ns + clock->distance_ns;
}

static inline int nf_time_compare(ddog_Timespec a, ddog_Timespec b) {
  if (a.seconds != b.seconds) return a.seconds < b.seconds ? -1 : 1;
  if (a.nanoseconds != b.nanoseconds) return a.nanoseconds < b.nanoseconds ? -1 : 1;
  return 0;
}

static inline struct timespec nf_time_to_timespec(int64_t nanoseconds) {
  return (struct timespec){.tv_sec = (time_t)(nanoseconds / NF_SECOND_NS),
                           .tv_nsec = (long)(nanoseconds % NF_SECOND_NS)};
}

#endif
