/* Sends the reports that spool.h has left in a folder. */
#ifndef NF_EXPORTER_UPLOAD_H
#define NF_EXPORTER_UPLOAD_H

#include "exporter/exporter.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_upload_counts {
  size_t accepted;         /* and removed */
  size_t rejected;         /* the server answered, but not with 2xx: left where they are */
  unsigned last_rejection; /* its status */
  size_t damaged;          /* no report, or not a whole one: left where they are */
  size_t left;             /* not tried, since something went wrong before: see the error */
} nf_upload_counts;

/* Called once for each report: what became of it, in words. May be NULL. */
typedef void nf_upload_observer(void *context, const char *name, const char *outcome);

/* Sends all reports, oldest first, each within timeout_ms (0: no limit). A report is removed only after
 * the server has accepted it: whoever is killed in between sends it again next time, and loses none. False
 * after setting the error when the folder cannot be read, the server cannot be reached or the token was
 * set; the counts hold all the same. */
bool nf_upload_folder(const char *folder, const nf_exporter *exporter, uint64_t timeout_ms, nf_token *token,
                      nf_upload_observer *observer, void *context, nf_upload_counts *counts, nf_error *error);

#ifdef __cplusplus
}
#endif

#endif
