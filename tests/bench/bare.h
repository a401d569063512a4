/* The least that a workload costs: an engine without a library behind it, without an interface, checks,
 * limits or errors, that takes the same arguments (128 bytes a location, strings by pointer and length). What
 * stands between our engine and this one is what may still be won. One engine in a process. */
#ifndef NF_BENCH_BARE_H
#define NF_BENCH_BARE_H

#include "tests/bench/engine_run.h"

typedef enum bare_kind {
  BARE_TOUCH,   /* reads every byte that it is given once, and keeps nothing */
  BARE_CONTENT, /* recognises strings by their bytes, as an engine must that may not trust pointers; LZ4 */
  BARE_POINTER, /* takes equal pointers for equal strings, which is wrong in general; zstd, level 1 */
  N_BARE_KINDS
} bare_kind;
extern const char *const bare_names[N_BARE_KINDS];

/* Ready for the adds of w. */
const engine *bare_open(bare_kind kind, const workload *w);

#endif
