/* One report, complete before the first byte of it is sent: where it goes, its headers, its body. */
#ifndef NF_EXPORTER_REQUEST_H
#define NF_EXPORTER_REQUEST_H

#include "core/error.h"
#include "exporter/endpoint.h"
#include "exporter/tags.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_file {
  nf_text name;
  const uint8_t *data;
  size_t len;
} nf_file;

typedef struct nf_moment {
  int64_t seconds; /* since 1970-01-01 UTC */
  uint32_t nanoseconds;
} nf_moment;

typedef struct nf_endpoint_count {
  nf_text name;
  int64_t count;
} nf_endpoint_count;

/* What goes into a report; all of it borrowed. */
typedef struct nf_report {
  nf_moment start, end;
  const nf_file *files_to_compress, *files;
  size_t file_to_compress_count, file_count;
  const nf_tags *tags;                      /* of this report; may be NULL */
  const nf_endpoint_count *endpoint_counts; /* sorted by name */
  size_t endpoint_count_count;
  bool with_endpoint_counts;
  const nf_text *internal_json, *info_json; /* may be NULL */
  uint64_t timeout_ms;                      /* for the whole of sending it; 0: no limit */
} nf_report;

/* How TLS is to be done; read from the environment when the exporter was made. */
typedef struct nf_tls_settings {
  char *ca_file; /* SSL_CERT_FILE, or NULL */
  char *proxy;   /* NULL: direct */
} nf_tls_settings;

typedef struct nf_request {
  nf_endpoint endpoint;
  nf_tls_settings tls;
  uint64_t timeout_ms;
  char boundary[33];
  nf_buffer head;  /* request line and headers, with the empty line */
  nf_buffer body;  /* the multipart document */
  nf_buffer event; /* event.json, as in the body */
  /* Where the files lie in the body, in order; for those who want them apart. */
  struct nf_request_part {
    size_t name, name_len; /* in `names` */
    size_t data, len;      /* in `body` */
    bool compressed;
  } * parts;
  size_t part_count;
  nf_buffer names;
} nf_request;

struct nf_exporter;

/* NULL after setting the error. */
nf_request *nf_request_build(const struct nf_exporter *exporter, const nf_report *report, nf_error *error);
void nf_request_drop(nf_request *request); /* NULL does nothing; overwrites before freeing */

/* A report that was built before and kept apart; all of it borrowed. */
typedef struct nf_stored_report {
  nf_text user_agent, container_id, library_name, library_version; /* without a container: empty */
  nf_text event;
  const nf_file *files; /* as they were sent, compressed or not */
  size_t file_count;
  uint64_t timeout_ms;
} nf_stored_report;

/* The same report as a request to the exporter's endpoint. NULL after setting the error. */
nf_request *nf_request_rebuild(const struct nf_exporter *exporter, const nf_stored_report *stored,
                               nf_error *error);

bool nf_tls_settings_copy(nf_tls_settings *settings, const nf_tls_settings *from);
void nf_tls_settings_deinit(nf_tls_settings *settings);

/* "2023-11-14T22:13:20.000000005Z"; false for a moment that no calendar reaches (more than 262 000 years
 * away). */
bool nf_moment_append(nf_buffer *out, nf_moment moment);

#ifdef __cplusplus
}
#endif

#endif
