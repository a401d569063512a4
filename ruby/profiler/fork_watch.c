#include "fork_watch.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic uint64_t generation = 1;
static void (*child_callback)(void);

static void after_fork_in_child(void) {
  atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
  if (child_callback) child_callback();
}

bool nf_fork_watch_init(void (*in_child)(void)) {
  child_callback = in_child;
  return pthread_atfork(NULL, NULL, after_fork_in_child) == 0;
}

uint64_t nf_fork_watch_generation(void) { return atomic_load_explicit(&generation, memory_order_relaxed); }
