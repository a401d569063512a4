/* Where a report goes: what an agent URL, or a site and an API key, mean. */
#ifndef NF_EXPORTER_ENDPOINT_H
#define NF_EXPORTER_ENDPOINT_H

#include "core/error.h"
#include "exporter/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nf_endpoint_kind {
  NF_ENDPOINT_HTTP,
  NF_ENDPOINT_HTTPS,
  NF_ENDPOINT_UNIX,
  NF_ENDPOINT_FOLDER,      /* file:///folder: reports are written there */
  NF_ENDPOINT_UNREACHABLE, /* well-formed, but nothing that a report can be sent to: `address` says why */
} nf_endpoint_kind;

typedef struct nf_endpoint {
  nf_endpoint_kind kind;
  bool agentless;
  char *address; /* host name or number without brackets; socket path; folder; reason */
  size_t address_len;
  unsigned port;
  char *host;    /* for the host header */
  char *path;    /* the request's path */
  char *api_key; /* NULL without one */
} nf_endpoint;

/* All-zero on failure. Addresses may hold any byte but NUL; host, path and key are NUL-terminated and hold
 * no NUL. */
bool nf_endpoint_init_agent(nf_endpoint *endpoint, nf_text url, nf_error *error);
bool nf_endpoint_init_agentless(nf_endpoint *endpoint, nf_text site, nf_text api_key, nf_error *error);
bool nf_endpoint_copy(nf_endpoint *endpoint, const nf_endpoint *from, nf_error *error);

/* Frees and overwrites, the key above all. */
void nf_endpoint_deinit(nf_endpoint *endpoint);

/* Checks the authority and syntax of a URL without making anything of it. */
bool nf_endpoint_check_url(nf_text url, nf_error *error);

#ifdef __cplusplus
}
#endif

#endif
