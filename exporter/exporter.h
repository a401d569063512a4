/* Sends profiles to an agent, to an intake, or into a folder.
 *
 *   exporter = nf_exporter_new(...)                 who sends, and where to
 *   request = nf_request_build(exporter, report)    a report, complete
 *   nf_exporter_send(request, token, &status)       blocks until the server has answered
 *
 * No thread, no pool, nothing kept between two reports; see fork_guard.h for what makes it safe to fork. */
#ifndef NF_EXPORTER_EXPORTER_H
#define NF_EXPORTER_EXPORTER_H

#include "exporter/request.h"
#include "exporter/token.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_exporter {
  nf_endpoint endpoint;
  nf_tls_settings tls;
  nf_tags tags;
  nf_buffer library_name, library_version, family; /* UTF-8 */
} nf_exporter;

/* Takes over the endpoint, on failure too; copies the rest. NULL after setting the error. */
nf_exporter *nf_exporter_new(nf_text library_name, nf_text library_version, nf_text family,
                             const nf_tags *tags, nf_endpoint *endpoint, nf_error *error);
void nf_exporter_drop(nf_exporter *exporter);

/* Takes over the request. True with the status of the final response; false after setting the error. The
 * token may be NULL. */
bool nf_exporter_send(nf_request *request, nf_token *token, unsigned *status, nf_error *error);

#ifdef __cplusplus
}
#endif

#endif
