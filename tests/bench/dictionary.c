#define _GNU_SOURCE
#include "tests/bench/dictionary.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/measure.h"

/* ---- libdatadog 46.1: datadog/common.h and datadog/profiling.h ---- */

typedef struct slice {
  const void *ptr;
  size_t len;
} slice;

typedef struct status { /* err: NULL, or what is wrong */
  size_t flags;
  const char *err;
} status;

typedef const void *id; /* of a string or a function */

typedef struct function_row {
  id name, system_name, file;
} function_row;

typedef struct location {
  id mapping, function;
  uint64_t address;
  int64_t line;
} location;

typedef struct label {
  id key;
  slice str;
  int64_t num;
  slice num_unit;
} label;

typedef struct sample_row {
  slice locations, values, labels;
} sample_row;

typedef struct vector { /* bytes of an error's text */
  const void *ptr;
  size_t len, capacity;
} vector;

typedef struct result { /* tag 0: ok */
  uint32_t tag;
  union {
    bool done;
    void *encoded;
    slice bytes;
    vector error;
  };
} result;

typedef struct timespec46 {
  int64_t seconds;
  uint32_t nanoseconds;
} timespec46;

typedef enum sample_type {
  ALLOC_SAMPLES = 0,
  CPU_TIME = 4,
  CPU_SAMPLES = 5,
  HEAP_LIVE_SAMPLES = 24,
  HEAP_LIVE_SIZE = 25,
  TIMELINE = 48,
  WALL_TIME = 50,
} sample_type;

enum { UTF8_VALIDATE = 2 };

static struct {
  status (*ProfilesDictionary_new)(void **dictionary);
  status (*ProfilesDictionary_insert_str)(id *made, void *dictionary, slice text, int utf8);
  status (*ProfilesDictionary_insert_function)(id *made, void *dictionary, const function_row *row);
  status (*Profile_with_dictionary)(void **profile, void *const *dictionary, slice types, const void *period);
  status (*Profile_add2)(void **profile, sample_row row, int64_t timestamp);
  result (*Profile_serialize)(void **profile, const timespec46 *start, const timespec46 *end);
  result (*EncodedProfile_bytes)(void **encoded);
  void (*EncodedProfile_drop)(void **encoded);
  result (*Profile_reset)(void **profile);
} library;

static void *function_of(void *handle, const char *path, const char *name) {
  void *f = dlsym(handle, name);
  if (!f) DIE("%s lacks %s: it is not libdatadog 46", path, name);
  return f;
}

static void open_library(const char *path) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) DIE("%s", dlerror());
#define LOAD(name) library.name = (__typeof__(library.name))function_of(handle, path, "ddog_prof_" #name)
  LOAD(ProfilesDictionary_new);
  LOAD(ProfilesDictionary_insert_str);
  LOAD(ProfilesDictionary_insert_function);
  LOAD(Profile_with_dictionary);
  LOAD(Profile_add2);
  LOAD(Profile_serialize);
  LOAD(EncodedProfile_bytes);
  LOAD(EncodedProfile_drop);
  LOAD(Profile_reset);
#undef LOAD
}

static void check(const char *what, status s) {
  if (s.err) DIE("%s: %s", what, s.err);
}

static result checked(const char *what, result r) {
  if (r.tag != 0) DIE("%s failed", what);
  return r;
}

/* ---- what is interned beforehand ---- */

enum key { THREAD_ID, THREAD_NAME, LOCAL_ROOT_SPAN_ID, SPAN_ID, STATE, ALLOCATION_CLASS, GC_GEN_AGE, N_KEYS };
static const char *const KEYS[N_KEYS] = {"thread id", "thread name",      "local root span id", "span id",
                                         "state",     "allocation class", "gc gen age"};

static void *dictionary, *profile, *encoded;
static id key_ids[N_KEYS], function_ids[N_FUNCS];

static slice slice_of(text t) { return (slice){t.ptr, t.len}; }

static id intern(text t) {
  id made;
  check("insert_str", library.ProfilesDictionary_insert_str(&made, dictionary, slice_of(t), UTF8_VALIDATE));
  return made;
}

static void intern_all(const workload *w) {
  check("ProfilesDictionary_new", library.ProfilesDictionary_new(&dictionary));
  for (int i = 0; i < N_FUNCS; i++) {
    function_row row = {.name = intern(w->functions[i].name), .file = intern(w->functions[i].file)};
    check("insert_function", library.ProfilesDictionary_insert_function(&function_ids[i], dictionary, &row));
  }
  for (int i = 0; i < N_KEYS; i++) key_ids[i] = intern((text){KEYS[i], strlen(KEYS[i])});
}

/* ---- the engine ---- */

static struct {
  location *locations;
  label labels[5];
  int64_t values[N_VALUES];
  sample_row row;
} sample;

static label number_label(enum key key, int64_t num) {
  return (label){.key = key_ids[key], .str = {"", 0}, .num = num, .num_unit = {"", 0}};
}

static label text_label(enum key key, text str) {
  return (label){.key = key_ids[key], .str = slice_of(str), .num_unit = {"", 0}};
}

static inline void fill(const workload *w, const addition *a) {
  const stack *s = &w->stacks[a->stack];
  for (uint32_t i = 0; i < s->depth; i++)
    sample.locations[i] =
        (location){.function = function_ids[s->frames[i].function], .line = s->frames[i].line};
  size_t n = 0;
  if (w->spec.heap) {
    sample.labels[n++] = text_label(ALLOCATION_CLASS, w->classes[a->class_name]);
    sample.labels[n++] = number_label(GC_GEN_AGE, a->age);
  } else {
    sample.labels[n++] = text_label(THREAD_ID, w->thread_ids[a->thread]);
    sample.labels[n++] = text_label(THREAD_NAME, w->thread_names[a->thread]);
    sample.labels[n++] = number_label(LOCAL_ROOT_SPAN_ID, a->root_span);
    sample.labels[n++] = number_label(SPAN_ID, a->span);
    sample.labels[n++] = text_label(STATE, w->states[a->state]);
  }
  workload_values(w, a, sample.values);
  sample.row = (sample_row){{sample.locations, s->depth}, {sample.values, N_VALUES}, {sample.labels, n}};
}

static __attribute__((noinline)) void dictionary_add(const workload *w, uint32_t from, uint32_t n,
                                                     bool really) {
  uint32_t at = from % w->spec.period;
  for (uint32_t i = 0; i < n; i++) {
    const addition *a = workload_next(w, &at);
    fill(w, a);
    __asm__ volatile("" ::"r"(&sample), "r"(sample.locations) : "memory");
    if (really) check("Profile_add2", library.Profile_add2(&profile, sample.row, a->timestamp));
  }
}

static text serialize(void) {
  static const timespec46 start = {1700000000, 0}, end = {1700000060, 0};
  encoded = checked("Profile_serialize", library.Profile_serialize(&profile, &start, &end)).encoded;
  slice bytes = checked("EncodedProfile_bytes", library.EncodedProfile_bytes(&encoded)).bytes;
  return (text){bytes.ptr, bytes.len};
}

static void release(void) { library.EncodedProfile_drop(&encoded); }

static void reset(void) { checked("Profile_reset", library.Profile_reset(&profile)); }

const engine *dictionary_open(const char *path, const workload *w) {
  static const engine made = {dictionary_add, serialize, release, reset};
  static const sample_type types[N_VALUES] = {CPU_TIME,          CPU_SAMPLES,    WALL_TIME, ALLOC_SAMPLES,
                                              HEAP_LIVE_SAMPLES, HEAP_LIVE_SIZE, TIMELINE};
  open_library(path);
  sample.locations = calloc(w->max_depth, sizeof *sample.locations);
  if (!sample.locations) DIE("out of memory");
  intern_all(w);
  slice given = {types, N_VALUES};
  check("Profile_with_dictionary", library.Profile_with_dictionary(&profile, &dictionary, given, NULL));
  return &made;
}
