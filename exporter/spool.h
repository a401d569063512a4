/* Reports as files: for networks that let nothing out, and to look at. */
#ifndef NF_EXPORTER_SPOOL_H
#define NF_EXPORTER_SPOOL_H

#include "exporter/fork_guard.h"
#include "exporter/request.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the report into the folder (made if it is missing) as one MessagePack document, a map with these
 * keys:
 *
 *   "format"   "ddprof-report"
 *   "version"  1
 *   "path"     the request's path, e.g. "/profiling/v1/input"
 *   "headers"  map of the headers, without an API key and what belongs to a connection
 *   "event"    binary: event.json
 *   "files"    array of maps: "name", "compressed" (true: this is an LZ4 frame of the file), "data" (binary)
 *   "crc32"    of all bytes of the document before this key
 *
 * The file has mode 0600 and appears under its name, which sorts by time, only when it is complete and on
 * the disk. A symbolic link in place of the folder or of a file is refused. When the reports in the folder
 * would need more than NF_SPOOL_MAX_BYTES, the oldest are removed first; the first time a process does so
 * it says so on stderr. */
#define NF_SPOOL_MAX_BYTES ((uint64_t)1 << 30)
#define NF_SPOOL_SUFFIX ".ddprof"

/* *status becomes 200. Descriptors are the flight's while they are open, so that the child of a fork does
 * not keep them; it may be NULL. */
bool nf_spool_write(const char *folder, const nf_request *request, nf_flight *flight, unsigned *status,
                    nf_error *error);

/* What is in a folder: the reports, by name, which is by age. */
typedef struct nf_spool_name {
  char name[128];
  uint64_t size;
} nf_spool_name;
typedef struct nf_spool_names {
  nf_spool_name *items; /* free() it */
  size_t count;
} nf_spool_names;

/* A descriptor of the folder, which must exist; -1 after setting the error. */
int nf_spool_open(const char *folder, nf_flight *flight, nf_spool_names *names, nf_error *error);

/* The same with another limit; for tests. */
bool nf_spool_write_limited(const char *folder, const nf_request *request, nf_flight *flight,
                            uint64_t max_bytes, nf_error *error);

#ifdef __cplusplus
}
#endif

#endif
