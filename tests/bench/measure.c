#define _GNU_SOURCE
#include "tests/bench/measure.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double cpu_now(void) { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

double wall_now(void) { return seconds_of(CLOCK_MONOTONIC); }

double system_now(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (double)r.ru_stime.tv_sec + (double)r.ru_stime.tv_usec * 1e-6;
}

double page_faults(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (double)r.ru_minflt;
}

double process_status_of(int pid, const char *key) {
  char path[64], line[256];
  double value = -1;
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  FILE *f = fopen(path, "r");
  if (!f) return value;
  while (fgets(line, sizeof line, f))
    if (!strncmp(line, key, strlen(key))) value = atof(line + strlen(key));
  fclose(f);
  return value;
}

double process_status(const char *key) { return process_status_of(getpid(), key); }

void reset_peak_rss(void) {
  FILE *f = fopen("/proc/self/clear_refs", "w");
  if (!f) return;
  fputs("5", f);
  fclose(f);
}

double heap_kb(void) {
  struct mallinfo2 m = mallinfo2();
  return (double)(m.uordblks + m.hblkhd) / 1024;
}

/* ---- glibc's own names for its allocator: ours stand before them, for libraries that are opened later too
 * ---- */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
uint64_t n_mallocs;

#define PUBLIC __attribute__((visibility("default")))

PUBLIC void *malloc(size_t size) {
  n_mallocs++;
  return __libc_malloc(size);
}

PUBLIC void *calloc(size_t n, size_t size) {
  n_mallocs++;
  return __libc_calloc(n, size);
}

PUBLIC void *realloc(void *block, size_t size) {
  n_mallocs++;
  return __libc_realloc(block, size);
}

PUBLIC int posix_memalign(void **block, size_t alignment, size_t size) {
  n_mallocs++;
  void *p = __libc_memalign(alignment, size);
  if (!p) return ENOMEM;
  *block = p;
  return 0;
}

void *uncounted_malloc(size_t size) { return __libc_malloc(size); }
