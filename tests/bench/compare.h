/* Repeated runs of several contenders, each in a process of its own, by turns; and their table. */
#ifndef NF_BENCH_COMPARE_H
#define NF_BENCH_COMPARE_H

#include <stdbool.h>
#include <stdio.h>

enum { MAX_CONTENDERS = 6, MAX_REPS = 99, MAX_METRICS = 48 };

/* Fills in the metrics of one run; called in a fresh process. */
typedef void (*run_fn)(int contender, const void *arg, double *metrics);

typedef struct comparison {
  const char *const *contenders;
  int n_contenders;
  int reps;
  bool minima; /* instead of medians: better on a noisy machine */
  FILE *tsv;   /* one line for each figure: section, metric, contender, figure; may be NULL */
} comparison;

/* `id` names the section in the TSV. A run that fails ends the program. */
void compare(const comparison *c, const char *id, const char *title, const char *const *metrics,
             int n_metrics, run_fn run, const void *arg);

#endif
