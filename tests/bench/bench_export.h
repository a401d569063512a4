/* What a report costs: a new exporter, a request of 1 MB, sending it to a server on this machine. */
#ifndef NF_BENCH_EXPORT_H
#define NF_BENCH_EXPORT_H

#include "tests/bench/compare.h"

/* `paths` are the contenders' libraries. */
void bench_export(const comparison *c, const char *const *paths);

#endif
