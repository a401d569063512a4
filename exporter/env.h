/* Reads environment variables while other threads may change them. getenv cannot do that: it follows
 * pointers that setenv may free meanwhile. Here the kernel does the reading, so that a stale pointer is an
 * error and not a crash; a list of variables that does not look like one is read again, for up to 0.13 s.
 * If it stays as it is, it is taken as it is, and the same oddity is not waited for again. */
#ifndef NF_EXPORTER_ENV_H
#define NF_EXPORTER_ENV_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For each name (shorter than 64): values[i] becomes a copy that the caller frees, or NULL when the
 * variable is not set. False when out of memory (all values are NULL then). */
bool nf_env_read(const char *const *names, char **values, size_t count);

/* In the place of getenv, for a library that uses the value at once (see the c-ares archive in BUILD):
 * borrowed until the calling thread calls it again. NULL also for a value of 1000 bytes and more. */
char *nf_env_get(const char *name);

#ifdef __cplusplus
}
#endif

#endif
