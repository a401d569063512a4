#ifndef NF_RACTOR_GUARD_H
#define NF_RACTOR_GUARD_H

// Some Rubies crash when a Ractor is made while the VM tells anybody of new objects, freed ones or
// collections (Ruby bug 18464): a new Ractor allocates before it has a stack, and the VM looks there for the
// place in the program. So there what needs to be told ends just before the program makes its first Ractor,
// and does not begin again in this process. Datadog::Profiling::RactorGuard knows which Rubies these are.

#include <ruby.h>

#include <stdbool.h>

// Are such hooks forbidden by now? GVL held.
bool nf_ractor_guard_closed(void);

void nf_ractor_guard_define(VALUE profiling);

#endif
