#define _GNU_SOURCE
#include "tests/bench/workload.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/measure.h"

const spec workload_specs[N_WORKLOADS] = {
    {"W1", "hot", 16, 20, 0, 2000000, 65536, 4, 0.0, false, false},
    {"W2", "typical", 20000, 40, 20, 500000, 500000, 0, 1.1, false, false},
    {"W3", "timeline", 20000, 40, 20, 500000, 500000, 0, 1.1, true, false},
    {"W4", "deep", 2000, 400, 0, 50000, 50000, 0, 1.1, false, false},
    {"W5", "all new", 100000, 40, 20, 100000, 100000, 0, 0.0, false, false},
    {"W6", "heap burst", 20000, 40, 20, 50000, 50000, 0, 1.1, false, true},
};

static const char *const WORDS[] = {
    "active",    "record",   "query",    "cache",      "render",     "template", "route",   "action",
    "dispatch",  "process",  "call",     "each",       "map",        "fetch",    "load",    "read",
    "write",     "parse",    "build",    "find",       "connection", "pool",     "execute", "serialize",
    "attribute", "assign",   "callback", "instrument", "notify",     "job",      "perform", "worker",
    "request",   "response", "header",   "session",    "cookie",     "store",    "json",    "generate",
    "format",    "encode",   "decode",   "validate",   "relation",   "scope",    "view",    "helper"};
static const char *const STATES[N_STATES] = {"had cpu", "sleeping", "waiting",
                                             "blocked", "network",  "unknown"};

/* ---- pseudo-random numbers: splitmix64 ---- */

static uint64_t random_state;

void random_seed(uint64_t seed) { random_state = seed; }

uint64_t random_u64(void) {
  uint64_t z = (random_state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

static uint32_t below(uint32_t n) { return (uint32_t)((random_u64() >> 32) * n >> 32); }

static int64_t new_id(void) { return (int64_t)(random_u64() >> 1 | 1); }

static const char *word(void) { return WORDS[below(sizeof WORDS / sizeof *WORDS)]; }

/* The cumulative distribution of Zipf's law over n things. */
static double *zipf_table(uint32_t n, double exponent) {
  double *table = malloc(n * sizeof *table), sum = 0;
  if (!table) DIE("out of memory");
  for (uint32_t i = 0; i < n; i++) table[i] = sum += pow(i + 1, -exponent);
  for (uint32_t i = 0; i < n; i++) table[i] /= sum;
  return table;
}

static uint32_t zipf_pick(const double *table, uint32_t n) {
  double u = (double)(random_u64() >> 11) * 0x1p-53;
  uint32_t low = 0, high = n - 1;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (table[middle] < u)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* ---- names ---- */

__attribute__((format(printf, 1, 2))) static text make_text(const char *format, ...) {
  va_list arguments;
  char *p;
  va_start(arguments, format);
  int n = vasprintf(&p, format, arguments);
  va_end(arguments);
  if (n < 0) DIE("out of memory");
  return (text){p, (size_t)n};
}

static void make_names(workload *w) {
  text files[N_FILES];
  for (int i = 0; i < N_FILES; i++) {
    const char *a = word(), *b = word(), *c = word(), *d = word();
    if (i % 4 == 0)
      files[i] = make_text("/app/app/%ss/%s/%s_%s_%d.rb", a, b, c, d, i);
    else
      files[i] = make_text("/usr/local/bundle/ruby/3.2.0/gems/%s%s-%u.%u.%u/lib/%s/%s/%s_%d.rb", a, b,
                           below(9), below(20), below(9), c, d, word(), i);
  }
  w->functions = malloc(N_FUNCS * sizeof *w->functions);
  if (!w->functions) DIE("out of memory");
  for (int i = 0; i < N_FUNCS; i++) {
    text file = files[below(N_FILES)];
    const char *prefix = below(4) == 0 ? "block in " : "", *first = word();
    text name = below(3) == 0 ? make_text("%s%s", prefix, first)
                              : make_text("%s%s_%s%s", prefix, first, word(), below(6) ? "" : "!");
    w->functions[i] = (function){name, file};
  }
  for (int i = 0; i < N_THREADS; i++) {
    w->thread_ids[i] = make_text("%d (%d)", 4100 + i, 8000 + 16 * i);
    w->thread_names[i] = i < 12 ? make_text("puma srv tp %03d", i + 1) : make_text("worker-%d", i);
  }
  for (int i = 0; i < N_CLASSES; i++) {
    const char *a = word();
    w->classes[i] = make_text("ActiveModel::%s%s%d", a, word(), i);
  }
  for (int i = 0; i < N_STATES; i++) w->states[i] = (text){STATES[i], strlen(STATES[i])};
}

/* ---- stacks: leaves of a call tree, so each shares a part at the root's side with an earlier one ---- */

static void make_stacks(workload *w) {
  const spec *s = &w->spec;
  double *popularity = zipf_table(N_FUNCS, 0.8);
  w->stacks = malloc(s->n_stacks * sizeof *w->stacks);
  if (!w->stacks) DIE("out of memory");
  for (uint32_t i = 0; i < s->n_stacks; i++) {
    uint32_t depth = s->depth - s->jitter + (s->jitter ? below(2 * s->jitter + 1) : 0), shared = 0;
    frame *frames = malloc(depth * sizeof *frames);
    if (!frames) DIE("out of memory");
    if (i >= 4) {
      const stack *other = &w->stacks[below(i)];
      uint32_t limit = (other->depth < depth ? other->depth : depth) * 9 / 10;
      shared = limit / 3 + below(limit - limit / 3 + 1);
      memcpy(frames + depth - shared, other->frames + other->depth - shared, shared * sizeof *frames);
    }
    for (uint32_t k = 0; k < depth - shared; k++) {
      uint32_t f = zipf_pick(popularity, N_FUNCS);
      frames[k] = (frame){f, (int32_t)(f * 7 % 400 + 3 * below(3) + 1)};
    }
    w->stacks[i] = (stack){frames, depth};
    if (depth > w->max_depth) w->max_depth = depth;
  }
  free(popularity);
}

/* ---- samples: half of them find their thread where it was; a thread stays about 1000 samples in a trace and
 * 200 in a span (with few label sets they never change); the state follows from the stack, as dd-trace-rb
 * infers it ---- */

static void make_adds(workload *w) {
  const spec *s = &w->spec;
  double *popularity = s->zipf > 0 ? zipf_table(s->n_stacks, s->zipf) : NULL;
  bool stay = s->label_sets != 0, unique = !popularity && !stay;
  struct {
    int64_t root, span;
    uint32_t left_root, left_span, stack;
  } threads[N_THREADS] = {0};
  w->adds = malloc(s->period * sizeof *w->adds);
  if (!w->adds) DIE("out of memory");
  for (uint32_t i = 0; i < s->period; i++) {
    addition *a = &w->adds[i];
    uint32_t t = below(stay ? s->label_sets : N_THREADS);
    if (!popularity)
      threads[t].stack = i % s->n_stacks;
    else if (i < N_THREADS || s->heap || below(2))
      threads[t].stack = zipf_pick(popularity, s->n_stacks);
    if (threads[t].left_root-- == 0) {
      threads[t].root = new_id();
      threads[t].left_root = stay ? UINT32_MAX : 1 + below(2000);
      threads[t].left_span = 0;
    }
    if (threads[t].left_span-- == 0 || unique) {
      threads[t].span = new_id();
      threads[t].left_span = stay ? UINT32_MAX : 1 + below(400);
    }
    a->stack = threads[t].stack;
    a->thread = (uint16_t)t;
    a->root_span = threads[t].root;
    a->span = threads[t].span;
    a->state = (uint8_t)(stay ? t : a->stack % N_STATES);
    a->allocations = below(10) == 0 ? (uint8_t)(1 + below(200)) : 0;
    a->class_name = (uint16_t)below(1 + below(N_CLASSES));
    a->age = (uint8_t)below(1 + below(50));
    a->cpu_ns = a->allocations ? 0 : below(10000000);
    a->wall_ns = a->allocations ? 0 : 10000000 + below(2000000);
    a->timestamp = s->timestamps ? 1700000000000000000 + (int64_t)i * 120000 + below(100000) : 0;
  }
  free(popularity);
}

spec workload_scaled(spec s, double scale) {
  uint32_t n = (uint32_t)(s.n_adds * scale);
  if (n == 0) n = 1;
  if (s.period == s.n_adds) s.period = n;
  if (s.n_stacks == s.n_adds) s.n_stacks = n;
  s.n_adds = n;
  return s;
}

workload *workload_make(const spec *s, uint64_t seed) {
  workload *w = calloc(1, sizeof *w);
  if (!w) DIE("out of memory");
  w->spec = *s;
  random_seed(seed);
  make_names(w);
  make_stacks(w);
  make_adds(w);
  return w;
}
