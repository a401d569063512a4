#define _GNU_SOURCE
#include "tests/bench/engine_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/reader.h"
#include "tests/bench/measure.h"

const char *const run_metric_names[N_RUN_METRICS] = {
    "add ns/sample (user)",
    "add ns/sample (user+sys)",
    "  (fill, subtracted)",
    "add mallocs/sample",
    "add page faults",
    "serialize ms (user)",
    "serialize ms (user+sys)",
    "serialize ms (wall)",
    "serialize mallocs",
    "serialize page faults",
    "reset us",
    "peak RSS kB, after adds",
    "peak RSS kB, at serialize",
    "RSS kB, after adds",
    "RSS kB, after reset",
    "heap in use kB, after adds",
    "heap in use kB, after reset",
    "profile bytes, raw",
    "profile bytes, encoded",
    "= samples",
    "= locations",
    "= functions",
    "= strings",
    "= location references",
    "= labels",
};

static uint64_t sum_of_adds(const workload *w) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < w->spec.n_adds; i++) {
    int64_t values[N_VALUES];
    workload_values(w, &w->adds[i % w->spec.period], values);
    for (int k = 0; k < N_VALUES; k++) sum += (uint64_t)values[k];
  }
  return sum;
}

size_t engine_check(const workload *w, text encoded, double *m) {
  nf_error error = {0};
  uint8_t *raw;
  size_t len;
  Pprof__Profile *p;
  if (!nf_reader_decompress((const uint8_t *)encoded.ptr, encoded.len, (size_t)4 << 30, &raw, &len, &error) ||
      !nf_reader_unpack(raw, len, (size_t)16 << 30, &p, &error) ||
      !nf_reader_check(p, NF_READER_RULES_PPROF, &error))
    DIE("%s: not a profile: %s", w->spec.id, error.text ? error.text : "out of memory");
  uint64_t sum = 0;
  double references = 0, labels = 0;
  for (size_t i = 0; i < p->n_sample; i++) {
    const Pprof__Sample *s = p->sample[i];
    for (size_t k = 0; k < s->n_value; k++) sum += (uint64_t)s->value[k];
    references += (double)s->n_location_id;
    labels += (double)s->n_label;
  }
  if (sum != sum_of_adds(w)) DIE("%s: the values in the profile are not those that were added", w->spec.id);
  if (w->spec.timestamps && p->n_sample != w->spec.n_adds) DIE("%s: samples are missing", w->spec.id);
  if (m) {
    m[N_SAMPLES] = (double)p->n_sample;
    m[N_LOCATIONS] = (double)p->n_location;
    m[N_FUNCTIONS] = (double)p->n_function;
    m[N_STRINGS] = (double)p->n_string_table;
    m[N_LOCATION_REFERENCES] = references;
    m[N_LABELS] = labels;
  }
  nf_reader_drop(p);
  nf_free(raw);
  return len;
}

static void write_file(const char *path, text bytes) {
  FILE *f = fopen(path, "w");
  if (!f || fwrite(bytes.ptr, 1, bytes.len, f) != bytes.len || fclose(f)) DIE("cannot write %s", path);
}

void engine_run(const engine *e, const workload *w, bool warm, const char *dump, double *m) {
  uint32_t n = w->spec.n_adds;
  if (warm && e->serialize) {
    e->add(w, 0, n, true);
    e->serialize();
    e->release();
    e->reset();
  }
  double cpu = cpu_now(), sys = system_now();
  e->add(w, 0, n, false);
  double fill_cpu = cpu_now() - cpu, fill_sys = system_now() - sys;
  reset_peak_rss();
  double rss = process_status("VmRSS:"), heap = heap_kb();
  uint64_t mallocs = n_mallocs;
  double faults = page_faults();
  cpu = cpu_now();
  sys = system_now();
  e->add(w, 0, n, true);
  double add_cpu = cpu_now() - cpu - fill_cpu, add_sys = system_now() - sys - fill_sys;
  m[ADD_CPU] = add_cpu / n * 1e9;
  m[ADD_USER] = (add_cpu - add_sys) / n * 1e9;
  m[ADD_FILL] = fill_cpu / n * 1e9;
  m[ADD_MALLOCS] = (double)(n_mallocs - mallocs) / n;
  m[ADD_FAULTS] = page_faults() - faults;
  m[PEAK_ADD] = process_status("VmHWM:") - rss;
  m[RSS_ADD] = process_status("VmRSS:") - rss;
  m[HEAP_ADD] = heap_kb() - heap;
  if (!e->serialize) return;

  mallocs = n_mallocs;
  faults = page_faults();
  double wall = wall_now();
  cpu = cpu_now();
  sys = system_now();
  text encoded = e->serialize();
  m[SERIALIZE_CPU] = (cpu_now() - cpu) * 1e3;
  m[SERIALIZE_USER] = m[SERIALIZE_CPU] - (system_now() - sys) * 1e3;
  m[SERIALIZE_WALL] = (wall_now() - wall) * 1e3;
  m[SERIALIZE_MALLOCS] = (double)(n_mallocs - mallocs);
  m[SERIALIZE_FAULTS] = page_faults() - faults;
  m[PEAK_SERIALIZE] = process_status("VmHWM:") - rss;
  m[ENCODED] = (double)encoded.len;

  char *copy = uncounted_malloc(encoded.len);
  if (!copy) DIE("out of memory");
  memcpy(copy, encoded.ptr, encoded.len);
  e->release();
  cpu = cpu_now();
  e->reset();
  m[RESET_CPU] = (cpu_now() - cpu) * 1e6;
  m[RSS_RESET] = process_status("VmRSS:") - rss - m[ENCODED] / 1024;
  m[HEAP_RESET] = heap_kb() - heap - m[ENCODED] / 1024;

  encoded.ptr = copy;
  m[RAW] = (double)engine_check(w, encoded, m);
  if (dump) write_file(dump, encoded);
  free(copy);
}

/* Nanoseconds of an add, less those of filling in its arguments. */
static double cost_of_adds(const engine *e, const workload *w, uint32_t from, uint32_t n) {
  double start = cpu_now();
  e->add(w, from, n, false);
  double filled = cpu_now();
  e->add(w, from, n, true);
  return (cpu_now() - filled - (filled - start)) / n * 1e9;
}

void engine_curve(const engine *e, const workload *w, const uint32_t *ends, int n_ends, uint32_t again,
                  double *m) {
  uint32_t at = 0;
  for (int i = 0; i < n_ends; i++) {
    m[3 * i] = cost_of_adds(e, w, at, ends[i] - at);
    at = ends[i];
    uint32_t n = again < at ? again : at;
    uint64_t mallocs = n_mallocs;
    m[3 * i + 1] = cost_of_adds(e, w, at - n, n);
    m[3 * i + 2] = (double)(n_mallocs - mallocs) / n;
  }
}
