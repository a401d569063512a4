#ifndef NF_IDLE_SAMPLING_HELPER_H
#define NF_IDLE_SAMPLING_HELPER_H

// A thread of its own that does what the worker must not do itself: take the GVL when nobody holds it, which
// may take long if somebody else is faster. One request fits in; further ones are dropped until it is done:
// Datadog::Profiling::Collectors::IdleSamplingHelper.

#include <ruby.h>

#include <stdbool.h>

typedef struct nf_idle_helper nf_idle_helper;

typedef void nf_idle_action(void);

// Raises TypeError. It works for the object as long as that lives. Its memory stays: a request that comes
// later does nothing, or reaches another helper.
nf_idle_helper *nf_idle_helper_from(VALUE object);

// Async-signal-safe, on any thread. `action` runs on the helper's thread, without the GVL. False: it is busy
// (or not running).
bool nf_idle_helper_request(nf_idle_helper *helper, nf_idle_action *action);

void nf_idle_helper_define(VALUE collectors);

#endif
