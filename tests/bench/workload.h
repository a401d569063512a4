/* What a Ruby profiler feeds a profile with: six workloads, the same for every library and every run. */
#ifndef NF_BENCH_WORKLOAD_H
#define NF_BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { N_FUNCS = 5000, N_FILES = 800, N_THREADS = 16, N_CLASSES = 200, N_VALUES = 7, N_STATES = 6 };

typedef struct text {
  const char *ptr;
  size_t len;
} text;

typedef struct function {
  text name, file;
} function;

typedef struct frame {
  uint32_t function;
  int32_t line;
} frame;

typedef struct stack {
  const frame *frames; /* leaf first, as pprof wants */
  uint32_t depth;
} stack;

/* One sample to be added. */
typedef struct addition {
  uint32_t stack;
  uint16_t thread, class_name;
  uint8_t state, allocations, age;
  int64_t root_span, span, cpu_ns, wall_ns, timestamp;
} addition;

typedef struct spec {
  const char *id, *what;
  uint32_t n_stacks, depth, jitter, n_adds;
  uint32_t period;     /* after so many adds it begins anew */
  uint32_t label_sets; /* 0: without limit */
  double zipf;         /* how unevenly the stacks are picked; 0: one after another */
  bool timestamps, heap;
} spec;

typedef struct workload {
  spec spec;
  function *functions;
  stack *stacks;
  addition *adds;
  text thread_ids[N_THREADS], thread_names[N_THREADS], classes[N_CLASSES], states[N_STATES];
  uint32_t max_depth;
} workload;

/* W1 hot, W2 typical, W3 timeline, W4 deep, W5 all new, W6 heap burst. */
enum { W1, W2, W3, W4, W5, W6, N_WORKLOADS };
extern const spec workload_specs[N_WORKLOADS];

/* The same kind with another number of adds. */
spec workload_scaled(spec s, double scale);

/* Lives until the process ends. */
workload *workload_make(const spec *s, uint64_t seed);

/* The addition at *at, which goes on to the next one; after the period it begins anew. */
static inline const addition *workload_next(const workload *w, uint32_t *at) {
  const addition *a = &w->adds[*at];
  if (++*at == w->spec.period) *at = 0;
  return a;
}

/* The values that dd-trace-rb reports with a sample: cpu-time, cpu-samples, wall-time, alloc-samples,
 * heap-live-samples, heap-live-size, timeline. */
static inline void workload_values(const workload *w, const addition *a, int64_t values[N_VALUES]) {
  for (int i = 0; i < N_VALUES; i++) values[i] = 0;
  if (w->spec.heap) {
    values[4] = 1 + a->allocations;
    values[5] = (40 + a->class_name * 8) * values[4];
    return;
  }
  values[0] = a->cpu_ns;
  values[1] = a->allocations == 0;
  values[2] = a->wall_ns;
  values[3] = a->allocations;
}

/* Pseudo-random numbers: the same after the same seed. */
void random_seed(uint64_t seed);
uint64_t random_u64(void);

#endif
