#ifndef NF_IDLE_SAMPLING_HELPER_H
#define NF_IDLE_SAMPLING_HELPER_H

// A thread of its own that does what the worker must not do itself: take the GVL when nobody holds it, which
// may take long if somebody else is faster. One request fits in; further ones are dropped until it is done:
// Datadog::Profiling::Collectors::IdleSamplingHelper.

#include <ruby.h>

#include <stdbool.h>

typedef struct nf_idle_helper nf_idle_helper;

// Raises TypeError. It lives as long as the object.
nf_idle_helper *nf_idle_helper_from(VALUE object);

// Without the GVL. `action` runs on the helper's thread, without the GVL. False: it is busy (or not running).
bool nf_idle_helper_request(nf_idle_helper *helper, void (*action)(void));

void nf_idle_helper_define(VALUE collectors);

#endif
