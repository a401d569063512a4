/* The authorities that a TLS server's certificate must come from: one file of certificates in PEM form. */
#ifndef NF_EXPORTER_ROOTS_H
#define NF_EXPORTER_ROOTS_H

#include "core/error.h"
#include "exporter/buffer.h"
#include "exporter/fork_guard.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The system's file, where distributions keep it; NULL if there is none. */
const char *nf_roots_find(void);

/* Appends the file's bytes. Its descriptor belongs to the flight and is closed on exec from the start, which
 * libcurl's own would not be. Only regular files; never waits. */
bool nf_roots_read(const char *path, nf_flight *flight, nf_buffer *out, nf_error *error);

#ifdef __cplusplus
}
#endif

#endif
