#define _GNU_SOURCE
#include "tests/bench/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/measure.h"

static double figures[MAX_METRICS][MAX_CONTENDERS][MAX_REPS];

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void run_once(const comparison *c, const char *title, int contender, run_fn run, const void *arg,
                     double metrics[MAX_METRICS]) {
  int fds[2], status;
  if (pipe(fds)) DIE("pipe: %s", strerror(errno));
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0) DIE("fork: %s", strerror(errno));
  if (pid == 0) {
    run(contender, arg, metrics);
    fflush(stdout);
    size_t size = MAX_METRICS * sizeof *metrics;
    _exit(write(fds[1], metrics, size) == (ssize_t)size ? 0 : 2);
  }
  close(fds[1]);
  ssize_t n = read(fds[0], metrics, MAX_METRICS * sizeof *metrics);
  close(fds[0]);
  waitpid(pid, &status, 0);
  if (n != (ssize_t)(MAX_METRICS * sizeof *metrics) || status)
    DIE("%s: the run of %s failed (status %d)", title, c->contenders[contender], status);
}

static void print(const comparison *c, const char *id, const char *title, const char *const *metrics,
                  int n_metrics) {
  printf("\n%s  (%s of %d; then ratios to the first; [(max-min)/figure of the first])\n%-30s", title,
         c->minima ? "minimum" : "median", c->reps, "");
  for (int k = 0; k < c->n_contenders; k++) printf(" %12.12s", c->contenders[k]);
  for (int m = 0; m < n_metrics; m++) {
    double figure[MAX_CONTENDERS] = {0};
    printf("\n%-30s", metrics[m]);
    for (int k = 0; k < c->n_contenders; k++) {
      double *all = figures[m][k];
      qsort(all, (size_t)c->reps, sizeof *all, by_size);
      double median = (all[(c->reps - 1) / 2] + all[c->reps / 2]) / 2;
      figure[k] = c->minima ? all[0] : median;
      printf(" %12.*f", fabs(figure[k]) >= 1000 ? 0 : 3, figure[k]);
      if (c->tsv) fprintf(c->tsv, "%s\t%s\t%s\t%.9g\n", id, metrics[m], c->contenders[k], figure[k]);
    }
    if (figure[0] == 0) continue;
    for (int k = 1; k < c->n_contenders; k++) printf("  x%.3f", figure[k] / figure[0]);
    printf("  [%.1f%%]", (figures[m][0][c->reps - 1] - figures[m][0][0]) / fabs(figure[0]) * 100);
  }
  printf("\n");
  fflush(NULL);
}

void compare(const comparison *c, const char *id, const char *title, const char *const *metrics,
             int n_metrics, run_fn run, const void *arg) {
  for (int rep = 0; rep < c->reps; rep++)
    for (int turn = 0; turn < c->n_contenders; turn++) {
      int contender = rep % 2 ? c->n_contenders - 1 - turn : turn;
      double run_metrics[MAX_METRICS] = {0};
      run_once(c, title, contender, run, arg, run_metrics);
      for (int m = 0; m < n_metrics; m++) figures[m][contender][rep] = run_metrics[m];
    }
  print(c, id, title, metrics, n_metrics);
}
