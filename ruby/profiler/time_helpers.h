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

static inline ddog_Timespec nf_time_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (ddog_Timespec){.seconds = now.tv_sec, .nanoseconds = (uint32_t)now.tv_nsec};
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
