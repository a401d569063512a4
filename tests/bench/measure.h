/* Clocks, memory, and the number of calls of malloc. */
#ifndef NF_BENCH_MEASURE_H
#define NF_BENCH_MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define DIE(...)                                                                                             \
  do {                                                                                                       \
    fprintf(stderr, __VA_ARGS__);                                                                            \
    fputc('\n', stderr);                                                                                     \
    exit(1);                                                                                                 \
  } while (0)

/* Seconds. */
double cpu_now(void); /* user and system time of the whole process */
double system_now(void);
double wall_now(void);

/* Pages that the kernel had to find for this process so far. */
double page_faults(void);

/* A number in /proc/<pid>/status, such as "VmHWM:" (kB) or "Threads:". -1 if there is none. */
double process_status_of(int pid, const char *key);
double process_status(const char *key);

/* From here on VmHWM is the peak since now. */
void reset_peak_rss(void);

/* What malloc has given away and not taken back. */
double heap_kb(void);

/* Calls of malloc, calloc, realloc and posix_memalign so far, by libraries too. */
extern uint64_t n_mallocs;

/* Memory that n_mallocs does not see. */
void *uncounted_malloc(size_t size);

#endif
