#ifndef NF_FORK_WATCH_H
#define NF_FORK_WATCH_H

// Knows in which process of a chain of forks we are, at the cost of reading one integer. Objects note the
// generation that they were set up in; another one means that they were copied by a fork: their threads are
// gone, locks may be held by nobody, and what a thread was doing without the GVL was cut off in the middle.

#include <stdbool.h>
#include <stdint.h>

// Once, before anything else. `in_child` runs in every forked child before fork returns, so it must be
// async-signal-safe. False: the system has no memory for it.
bool nf_fork_watch_init(void (*in_child)(void));

uint64_t nf_fork_watch_generation(void);

#endif
