/* One run of a workload through an engine: what adding, serializing and resetting cost, in time and memory.
 * Checks that nothing was lost: the values in the profile must add up to those that were added. */
#ifndef NF_BENCH_ENGINE_RUN_H
#define NF_BENCH_ENGINE_RUN_H

#include "tests/bench/workload.h"

typedef struct engine {
  /* Adds w->adds[from .. from + n), beginning anew after the period. `really` false: only fills in the
   * arguments of each add, which is what the measured program does itself. */
  void (*add)(const workload *w, uint32_t from, uint32_t n, bool really);
  text (*serialize)(void); /* the encoded profile, owned by the engine; NULL: the engine cannot */
  void (*release)(void);   /* of the encoded profile */
  void (*reset)(void);
} engine;

enum {
  ADD_USER,
  ADD_CPU,
  ADD_FILL,
  ADD_MALLOCS,
  ADD_FAULTS,
  SERIALIZE_USER,
  SERIALIZE_CPU,
  SERIALIZE_WALL,
  SERIALIZE_MALLOCS,
  SERIALIZE_FAULTS,
  RESET_CPU,
  PEAK_ADD,
  PEAK_SERIALIZE,
  RSS_ADD,
  RSS_RESET,
  HEAP_ADD,
  HEAP_RESET,
  RAW,
  ENCODED,
  N_SAMPLES,
  N_LOCATIONS,
  N_FUNCTIONS,
  N_STRINGS,
  N_LOCATION_REFERENCES,
  N_LABELS,
  N_RUN_METRICS
};
extern const char *const run_metric_names[N_RUN_METRICS];

/* warm: measures the second profile of the process. dump: a file for the encoded profile, or NULL. */
void engine_run(const engine *e, const workload *w, bool warm, const char *dump, double *metrics);

/* Adds the whole workload piece by piece; after each piece, adds the last `again` of what was added once
 * more, which brings nothing new. Metrics, for piece i up to ends[i]: 3i = ns of a new add, 3i+1 = ns of a
 * repeated one, 3i+2 = malloc calls of a repeated one. */
void engine_curve(const engine *e, const workload *w, const uint32_t *ends, int n_ends, uint32_t again,
                  double *metrics);

/* The uncompressed size. Ends the program if `encoded` is not a profile of w. */
size_t engine_check(const workload *w, text encoded, double *metrics);

#endif
