/* One report through the public C ABI of a library that is loaded by path. */
#ifndef NF_TESTS_EXPORTER_REPORT_H
#define NF_TESTS_EXPORTER_REPORT_H

#include "options.h"

#define FUNCTIONS(X)                                                                                         \
  X(ddog_Error_message)                                                                                      \
  X(ddog_Error_drop)                                                                                         \
  X(ddog_Vec_Tag_new)                                                                                        \
  X(ddog_Vec_Tag_drop)                                                                                       \
  X(ddog_Vec_Tag_push)                                                                                       \
  X(ddog_prof_Exporter_new)                                                                                  \
  X(ddog_prof_Exporter_drop)                                                                                 \
  X(ddog_prof_Exporter_send)                                                                                 \
  X(ddog_prof_Exporter_Request_build)                                                                        \
  X(ddog_prof_Exporter_Request_drop)                                                                         \
  X(ddog_Endpoint_agent)                                                                                     \
  X(ddog_Endpoint_agentless)                                                                                 \
  X(ddog_CancellationToken_new)                                                                              \
  X(ddog_CancellationToken_clone)                                                                            \
  X(ddog_CancellationToken_cancel)                                                                           \
  X(ddog_CancellationToken_drop)

/* Only needed for endpoint statistics: a library of the exporter alone lacks them. */
#define PROFILE_FUNCTIONS(X)                                                                                 \
  X(ddog_prof_Profile_new)                                                                                   \
  X(ddog_prof_Profile_drop)                                                                                  \
  X(ddog_prof_Profile_add_endpoint_count)                                                                    \
  X(ddog_prof_Profile_serialize)                                                                             \
  X(ddog_prof_EncodedProfile_drop)

#define DECLARE(f) extern __typeof__(f) *call_##f;
FUNCTIONS(DECLARE)
PROFILE_FUNCTIONS(DECLARE)
#undef DECLARE

void load_library(const char *path);
void unload_library(void);

/* A token that all later reports use. */
void share_token(void);
bool cancel_shared_token(void);

double now_ms(void);

/* "what<TAB>text", controls escaped; drops the error. */
void print_error(const char *what, ddog_Error *error);

/* Makes and sends one report and prints what came of it. True if the server answered. */
bool report(const options *o);

/* As report, with allocations failing as the preloaded library is told to, within the calls only.
 * 't': a tag failed, 'n': new failed, 'b': build failed, 's': send failed, 'o': answered. */
char report_quietly(const options *o, void (*enter)(void), void (*leave)(void));

#endif
