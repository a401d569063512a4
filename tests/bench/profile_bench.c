/* Measures libraries with the v6 interface, side by side: opened by path, so that one program compares any of
 * them; beside them, if wanted, the original's later interface and an engine without a library. Every run is
 * a process of its own, and the contenders take turns. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bare.h"
#include "tests/bench/bench_export.h"
#include "tests/bench/compare.h"
#include "tests/bench/dictionary.h"
#include "tests/bench/engine_run.h"
#include "tests/bench/library.h"
#include "tests/bench/measure.h"

static const char USAGE[] =
    "usage: profile_bench --lib [NAME=]PATH [--lib ...] [--only LIST] [--reps N] [--min] [--scale F] ...\n"
    "  --lib [NAME=]PATH  shared library with the v6 interface; several (up to 6) are compared with the first\n"
    "  --lib46 [NAME=]PATH  libdatadog 46, by its dictionary: in W1 to W6 and curve only, as the next\n"
    "  --bare KIND   an engine without a library: touch (reads the arguments), content (recognises strings by their\n"
    "                bytes; LZ4), pointer (by their address; zstd 1)\n"
    "  --only LIST   of: W1 hot, W2 typical, W3 timeline, W4 deep, W5 all new, W6 heap burst; load (opening the\n"
    "                library, and an empty profile), codecs (sizes of W1-W6 with each), curve (W2 with more and more\n"
    "                adds), export (1 MB to a server here). Without: all but curve\n"
    "  --reps N      runs of each library (default 7)\n"
    "  --min         print minima instead of medians (better on a noisy machine)\n"
    "  --scale F     times the number of adds (default 1)\n"
    "  --seed N      of the workloads (default 1)\n"
    "  --warm        measure the second profile of a process\n"
    "  --dump DIR    write each encoded profile to DIR/<workload>.<name>.pprof\n"
    "  --tsv FILE    write the figures for programs, too\n"
    "An add's cost is given without that of filling in its arguments. kB are of 1024 bytes.";

/* Libraries with the v6 interface come first: they alone take part in everything. */
static comparison bench = {.reps = 7};
static struct others {
  enum { LIBRARY_46, BARE } what;
  const char *name, *path;
  bare_kind bare;
} others[MAX_CONTENDERS];
static int n_others;
static const char *names[MAX_CONTENDERS], *paths[MAX_CONTENDERS];
static uint64_t seed = 1;
static double scale = 1;
static const char *dump_dir, *only;
static bool warm;

/* ---- the library as an engine ---- */

static builder sample;
static ddog_prof_Profile profile;
static ddog_prof_EncodedProfile encoded;

/* Not inlined: `valgrind --toggle-collect=bench_add` counts what it and what it calls execute. */
static __attribute__((noinline)) void bench_add(const workload *w, uint32_t from, uint32_t n, bool really) {
  uint32_t at = from % w->spec.period;
  for (uint32_t i = 0; i < n; i++) {
    const addition *a = workload_next(w, &at);
    builder_fill(&sample, w, a);
    __asm__ volatile("" ::"r"(&sample), "r"(sample.locations) : "memory");
    if (!really) continue;
    ddog_prof_Profile_Result r = library.ddog_prof_Profile_add(&profile, sample.sample, a->timestamp);
    if (r.tag != DDOG_PROF_PROFILE_RESULT_OK) library_fail("Profile_add", &r.err);
  }
}

static text take(ddog_prof_Profile_SerializeResult r) {
  if (r.tag != DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK) library_fail("Profile_serialize", &r.err);
  encoded = r.ok;
  return (text){(const char *)encoded.buffer.ptr, encoded.buffer.len};
}

static const ddog_Timespec END = {1700000060, 0};

static __attribute__((noinline)) text bench_serialize(void) {
  return take(library.ddog_prof_Profile_serialize(&profile, &END, NULL, NULL));
}

static void release(void) { library.ddog_prof_EncodedProfile_drop(&encoded); }

static void reset(void) {
  ddog_prof_Profile_Result r = library.ddog_prof_Profile_reset(&profile, NULL);
  if (r.tag != DDOG_PROF_PROFILE_RESULT_OK) library_fail("Profile_reset", &r.err);
}

static const engine ENGINE = {bench_add, bench_serialize, release, reset};

static workload *begin(int contender, const spec *s) {
  workload *w = workload_make(s, seed);
  library_open(paths[contender]);
  builder_init(&sample, w);
  profile = new_profile();
  return w;
}

/* ---- workloads ---- */

static const engine *open_other(const struct others *o, const workload *w) {
  return o->what == BARE ? bare_open(o->bare, w) : dictionary_open(o->path, w);
}

static const engine *begin_any(int contender, const spec *s, workload **w) {
  bool other = contender >= bench.n_contenders;
  *w = other ? workload_make(s, seed) : begin(contender, s);
  return other ? open_other(&others[contender - bench.n_contenders], *w) : &ENGINE;
}

static comparison of_all(void) {
  comparison all = bench;
  all.n_contenders += n_others;
  return all;
}

static void run_workload(int contender, const void *arg, double *m) {
  workload *w;
  const engine *e = begin_any(contender, arg, &w);
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.%s.pprof", dump_dir ? dump_dir : "", w->spec.id, names[contender]);
  engine_run(e, w, warm, dump_dir ? path : NULL, m);
}

static void bench_workload(const spec *unscaled) {
  spec s = workload_scaled(*unscaled, scale);
  char title[128];
  snprintf(title, sizeof title, "%s %s: %u adds, %u stacks of depth %u+-%u", s.id, s.what, s.n_adds,
           s.n_stacks, s.depth, s.jitter);
  comparison all = of_all();
  compare(&all, s.id, title, run_metric_names, N_RUN_METRICS, run_workload, &s);
}

/* ---- codecs ---- */

enum { N_CODECS = 4 };
static const char *const CODEC_METRICS[2 * N_CODECS] = {"LZ4 bytes",     "LZ4 ms (cpu)", "gzip bytes",
                                                        "gzip ms (cpu)", "zstd bytes",   "zstd ms (cpu)",
                                                        "none bytes",    "none ms (cpu)"};

static void run_codecs(int contender, const void *arg, double *m) {
  workload *w = begin(contender, arg);
  for (int codec = 0; codec < (library.serialize_as ? N_CODECS : 1); codec++) {
    bench_add(w, 0, w->spec.n_adds, true);
    double start = cpu_now();
    text bytes =
        take(library.serialize_as ? library.serialize_as(&profile, &END, NULL, NULL, (ddog_prof_Codec)codec)
                                  : library.ddog_prof_Profile_serialize(&profile, &END, NULL, NULL));
    m[2 * codec + 1] = (cpu_now() - start) * 1e3;
    m[2 * codec] = (double)bytes.len;
    engine_check(w, bytes, NULL);
    release();
  }
}

static void bench_codecs(void) {
  for (int i = 0; i < bench.n_contenders; i++)
    if (!library_has_codecs(paths[i])) printf("\n%s has no choice of codecs: LZ4 only\n", names[i]);
  for (int i = 0; i < N_WORKLOADS; i++) {
    spec s = workload_scaled(workload_specs[i], scale);
    char id[64], title[128];
    snprintf(id, sizeof id, "codecs %s", s.id);
    snprintf(title, sizeof title, "codecs: %s %s, %u adds", s.id, s.what, s.n_adds);
    compare(&bench, id, title, CODEC_METRICS, 2 * N_CODECS, run_codecs, &s);
  }
}

/* ---- the cost of an add as the profile grows ---- */

enum { AGAIN = 50000, N_ENDS = 7 };
static const uint32_t ENDS[N_ENDS] = {50000, 100000, 200000, 500000, 1000000, 2000000, 5000000};

static void scaled_ends(uint32_t ends[N_ENDS]) {
  for (int i = 0; i < N_ENDS; i++) ends[i] = ENDS[i] * scale < 1 ? 1 : (uint32_t)(ENDS[i] * scale);
}

static void run_curve(int contender, const void *arg, double *m) {
  (void)arg;
  uint32_t ends[N_ENDS];
  scaled_ends(ends);
  spec s = workload_scaled(workload_specs[W2], (double)ends[N_ENDS - 1] / workload_specs[W2].n_adds);
  workload *w;
  const engine *e = begin_any(contender, &s, &w);
  engine_curve(e, w, ends, N_ENDS, AGAIN, m);
}

static void bench_curve(void) {
  static char text[3 * N_ENDS][64];
  const char *metrics[3 * N_ENDS];
  uint32_t ends[N_ENDS];
  scaled_ends(ends);
  for (int i = 0; i < 3 * N_ENDS; i++) {
    static const char *const what[] = {"new add ns", "repeated add ns", "repeated add mallocs"};
    snprintf(text[i], sizeof text[i], "%8u: %s", ends[i / 3], what[i % 3]);
    metrics[i] = text[i];
  }
  comparison all = of_all();
  compare(&all, "curve", "curve: W2 up to so many adds, and the last 50000 of them added again", metrics,
          3 * N_ENDS, run_curve, NULL);
}

/* ---- opening the library, and empty profiles ---- */

enum {
  DLOPEN_CPU,
  DLOPEN_WALL,
  DLOPEN_RSS,
  NEW_US,
  DROP_US,
  NEW_MALLOCS,
  EMPTY_SERIALIZE_US,
  EMPTY_BYTES,
  FRESH_RSS,
  FRESH_DATA,
  N_LOAD_METRICS
};
static const char *const LOAD_NAMES[N_LOAD_METRICS] = {
    "dlopen ms (cpu)",       "dlopen ms (wall)",       "dlopen RSS kB",      "Profile_new us",
    "Profile_drop us",       "new+drop mallocs",       "empty serialize us", "empty encoded bytes",
    "fresh profile kB, RSS", "fresh profile kB, data",
};

/* Reading the clock is a system call, which takes as long as making a profile where those are slow. */
static double cost_of_clock(void) {
  enum { N = 10000 };
  double start = cpu_now();
  for (int i = 0; i < N; i++) cpu_now();
  return (cpu_now() - start) / N;
}

static void run_load(int contender, const void *arg, double *m) {
  enum { N = 2000, HELD = 200, SERIALIZED = 100 };
  (void)arg;
  double rss = process_status("VmRSS:"), wall = wall_now(), cpu = cpu_now();
  if (!dlopen(paths[contender], RTLD_NOW | RTLD_LOCAL)) DIE("%s", dlerror());
  m[DLOPEN_CPU] = (cpu_now() - cpu) * 1e3;
  m[DLOPEN_WALL] = (wall_now() - wall) * 1e3;
  m[DLOPEN_RSS] = process_status("VmRSS:") - rss;
  library_open(paths[contender]);
  for (int i = 0; i < 16; i++) {
    profile = new_profile();
    library.ddog_prof_Profile_drop(&profile);
  }
  uint64_t mallocs = n_mallocs;
  for (int i = 0; i < N; i++) { /* one at a time, as a process does */
    cpu = cpu_now();
    profile = new_profile();
    double made = cpu_now();
    library.ddog_prof_Profile_drop(&profile);
    m[DROP_US] += (cpu_now() - made) / N * 1e6;
    m[NEW_US] += (made - cpu) / N * 1e6;
  }
  m[NEW_MALLOCS] = (double)(n_mallocs - mallocs) / N;
  double clock = cost_of_clock() * 1e6;
  m[NEW_US] -= clock;
  m[DROP_US] -= clock;
  profile = new_profile();
  for (int i = 0; i < SERIALIZED; i++) {
    cpu = cpu_now();
    m[EMPTY_BYTES] = (double)bench_serialize().len;
    m[EMPTY_SERIALIZE_US] += (cpu_now() - cpu) / SERIALIZED * 1e6;
    release();
  }
  rss = process_status("VmRSS:");
  double data = process_status("VmData:");
  for (int i = 0; i < HELD; i++) (void)new_profile();
  m[FRESH_RSS] = (process_status("VmRSS:") - rss) / HELD;
  m[FRESH_DATA] = (process_status("VmData:") - data) / HELD;
}

/* ---- command line ---- */

static void usage(void) {
  puts(USAGE);
  exit(1);
}

static void one_more(void) {
  if (bench.n_contenders + n_others == MAX_CONTENDERS) DIE("at most %d libraries", MAX_CONTENDERS);
}

/* [NAME=]PATH */
static void take_library(const char *argument, const char **name, const char **path) {
  const char *equals = strchr(argument, '='), *given = equals ? equals + 1 : argument;
  one_more();
  if (!(*path = realpath(given, NULL))) DIE("%s: %s", given, strerror(errno));
  *name = equals ? strndup(argument, (size_t)(equals - argument)) : *path;
}

static void add_library(const char *argument) {
  take_library(argument, &names[bench.n_contenders], &paths[bench.n_contenders]);
  bench.n_contenders++;
}

static void add_library46(const char *argument) {
  struct others *o = &others[n_others];
  o->what = LIBRARY_46;
  take_library(argument, &o->name, &o->path);
  n_others++;
}

static void add_bare(const char *argument) {
  one_more();
  for (bare_kind k = 0; k < N_BARE_KINDS; k++)
    if (!strcmp(strchr(bare_names[k], ' ') + 1, argument)) {
      others[n_others++] = (struct others){.what = BARE, .name = bare_names[k], .bare = k};
      return;
    }
  DIE("--bare %s: touch, content or pointer", argument);
}

static bool option(const char *name, const char *value) {
  if (!strcmp(name, "--lib"))
    add_library(value);
  else if (!strcmp(name, "--lib46"))
    add_library46(value);
  else if (!strcmp(name, "--bare"))
    add_bare(value);
  else if (!strcmp(name, "--reps"))
    bench.reps = atoi(value);
  else if (!strcmp(name, "--scale"))
    scale = atof(value);
  else if (!strcmp(name, "--only"))
    only = value;
  else if (!strcmp(name, "--seed"))
    seed = strtoull(value, NULL, 0);
  else if (!strcmp(name, "--dump"))
    dump_dir = value;
  else if (!strcmp(name, "--tsv")) {
    if (!(bench.tsv = fopen(value, "w"))) DIE("%s: %s", value, strerror(errno));
  } else
    return false;
  return true;
}

static void parse(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--warm"))
      warm = true;
    else if (!strcmp(argv[i], "--min"))
      bench.minima = true;
    else if (i + 1 == argc || !option(argv[i], argv[i + 1]))
      usage();
    else
      i++;
  }
  if (bench.n_contenders == 0 || bench.reps < 1 || bench.reps > MAX_REPS || !(scale > 0)) usage();
  for (int i = 0; i < n_others; i++) names[bench.n_contenders + i] = others[i].name;
  bench.contenders = names;
}

static bool wanted(const char *section) { return !only || strstr(only, section); }

int main(int argc, char **argv) {
  parse(argc, argv);
  for (int i = 0; i < bench.n_contenders; i++) printf("%s: %s\n", names[i], paths[i]);
  for (int i = 0; i < n_others; i++)
    if (others[i].path) printf("%s: %s\n", others[i].name, others[i].path);
  if (wanted("load"))
    compare(&bench, "load", "load: opening the library, and empty profiles", LOAD_NAMES, N_LOAD_METRICS,
            run_load, NULL);
  for (int i = 0; i < N_WORKLOADS; i++)
    if (wanted(workload_specs[i].id)) bench_workload(&workload_specs[i]);
  if (wanted("codecs")) bench_codecs();
  if (only && wanted("curve")) bench_curve();
  if (wanted("export")) {
    const char *lacking = NULL;
    for (int i = 0; i < bench.n_contenders; i++)
      if (!library_can_export(paths[i])) lacking = names[i];
    if (lacking)
      printf("\nexport: skipped, %s has no exporter\n", lacking);
    else
      bench_export(&bench, paths);
  }
  if (bench.tsv && fclose(bench.tsv)) DIE("cannot write the figures: %s", strerror(errno));
  return 0;
}
