/* Lets a profile do without what only some processors have; in C, as the engine's headers are not C++. */
#ifndef NF_TESTS_UNIT_CORE_PLAIN_PROCESSOR_H
#define NF_TESTS_UNIT_CORE_PLAIN_PROCESSOR_H

#include <datadog/profiling.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* False: the profile did so already, on this processor. */
bool plain_processor(ddog_prof_Profile *profile);

#ifdef __cplusplus
}
#endif

#endif
