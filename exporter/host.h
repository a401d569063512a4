/* What a report says about where the process runs. Found out once per process. */
#ifndef NF_EXPORTER_HOST_H
#define NF_EXPORTER_HOST_H

#include "exporter/tags.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_host {
  bool known;
  char container_id[80]; /* empty: none */
  nf_tags app_service_tags;
} nf_host;

/* NULL after setting the error (out of memory). Lives as long as the process. */
const nf_host *nf_host_get(nf_error *error);

/* The container id in a line of /proc/self/cgroup, or an empty text. */
nf_text nf_host_container_id_in(nf_text line);

#ifdef __cplusplus
}
#endif

#endif
