/* From the engine's errors to the public one. */
#ifndef NF_CORE_ABI_ERROR_ABI_H
#define NF_CORE_ABI_ERROR_ABI_H

#include "core/error.h"

#include <datadog/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Moves the text, and leaves an empty error. An error without text reads "out of memory". */
ddog_Error nf_abi_take_error(nf_error *error);

#ifdef __cplusplus
}
#endif

#endif
