/* The original's later interface by its fastest way (libdatadog 46): strings and functions are interned in a
 * dictionary once, beforehand, and samples name them by id. Its C interface is declared here as far as it is
 * used. */
#ifndef NF_BENCH_DICTIONARY_H
#define NF_BENCH_DICTIONARY_H

#include "tests/bench/engine_run.h"

/* Ready for the adds of w, whose names are in the dictionary already. Ends the program when the library at
 * `path` is not libdatadog 46. One engine in a process. */
const engine *dictionary_open(const char *path, const workload *w);

#endif
