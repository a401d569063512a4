/* The ddog_ facade of the exporter: checks arguments and translates types and errors, nothing else. */
#include "exporter/abi/translate.h"
#include "exporter/exporter.h"
#include "exporter/upload.h"

#include <datadog/profiling.h>

#include <stdlib.h>
#include <string.h>

struct ddog_prof_Exporter_Slice_File ddog_prof_Exporter_Slice_File_empty(void) {
  static const ddog_prof_Exporter_File none;
  return (ddog_prof_Exporter_Slice_File){.ptr = &none, .len = 0};
}

struct ddog_Endpoint ddog_Endpoint_agent(ddog_CharSlice base_url) {
  return (ddog_Endpoint){.tag = DDOG_ENDPOINT_AGENT, .agent = base_url};
}

struct ddog_Endpoint ddog_Endpoint_agentless(ddog_CharSlice site, ddog_CharSlice api_key) {
  return (ddog_Endpoint){.tag = DDOG_ENDPOINT_AGENTLESS, .AGENTLESS = {._0 = site, ._1 = api_key}};
}

static bool init_endpoint(nf_endpoint *endpoint, const ddog_Endpoint *from, nf_error *error) {
  switch ((int)from->tag) {
  case DDOG_ENDPOINT_AGENT:
    return nf_endpoint_init_agent(endpoint, nf_exporter_abi_text(from->agent), error);
  case DDOG_ENDPOINT_AGENTLESS:
    return nf_endpoint_init_agentless(endpoint, nf_exporter_abi_text(from->AGENTLESS._0),
                                      nf_exporter_abi_text(from->AGENTLESS._1), error);
  default:
    return nf_error_set(error, "unknown kind of endpoint: %d", (int)from->tag);
  }
}

struct ddog_prof_Exporter_NewResult ddog_prof_Exporter_new(ddog_CharSlice profiling_library_name,
                                                           ddog_CharSlice profiling_library_version,
                                                           ddog_CharSlice family,
                                                           const struct ddog_Vec_Tag *tags,
                                                           struct ddog_Endpoint endpoint) {
  nf_error error = {0};
  nf_endpoint to;
  nf_exporter *exporter = NULL;
  if (init_endpoint(&to, &endpoint, &error)) {
    nf_tags given = tags ? nf_exporter_abi_tags(*tags) : (nf_tags){0};
    exporter = nf_exporter_new(nf_exporter_abi_text(profiling_library_name),
                               nf_exporter_abi_text(profiling_library_version), nf_exporter_abi_text(family),
                               &given, &to, &error);
  }
  if (exporter)
    return (ddog_prof_Exporter_NewResult){.tag = DDOG_PROF_EXPORTER_NEW_RESULT_OK,
                                          .ok = (ddog_prof_Exporter *)exporter};
  return (ddog_prof_Exporter_NewResult){.tag = DDOG_PROF_EXPORTER_NEW_RESULT_ERR,
                                        .err = nf_abi_take_error(&error)};
}

void ddog_prof_Exporter_drop(struct ddog_prof_Exporter *exporter) {
  nf_exporter_drop((nf_exporter *)exporter);
}

/* The two lists of files as one array; NULL when out of memory. */
static nf_file *convert_files(const ddog_prof_Exporter_Slice_File *first,
                              const ddog_prof_Exporter_Slice_File *second) {
  size_t count = first->len + second->len;
  nf_file *files = nf_zeroed(count ? count : 1, sizeof *files);
  for (size_t i = 0; files && i < count; i++) {
    const ddog_prof_Exporter_File *from = i < first->len ? &first->ptr[i] : &second->ptr[i - first->len];
    files[i] = (nf_file){.name = nf_exporter_abi_text(from->name),
                         .data = from->file.ptr,
                         .len = from->file.ptr ? from->file.len : 0};
  }
  return files;
}

static nf_request *build(const nf_exporter *exporter, nf_report *report,
                         const ddog_prof_Exporter_Slice_File *compress,
                         const ddog_prof_Exporter_Slice_File *plain,
                         const struct ddog_prof_ProfiledEndpointsStats *stats, nf_error *error) {
  nf_file *files = convert_files(compress, plain);
  nf_endpoint_count *counts = NULL;
  bool ok = files && nf_exporter_abi_endpoint_counts(stats, &counts, &report->endpoint_count_count);
  if (!ok) nf_error_set_no_memory(error);
  report->files_to_compress = files;
  report->file_to_compress_count = compress->len;
  report->files = files ? files + compress->len : NULL;
  report->file_count = plain->len;
  report->with_endpoint_counts = stats != NULL;
  report->endpoint_counts = counts;
  nf_request *request = ok ? nf_request_build(exporter, report, error) : NULL;
  free(files);
  free(counts);
  return request;
}

struct ddog_prof_Exporter_Request_BuildResult
ddog_prof_Exporter_Request_build(struct ddog_prof_Exporter *exporter, struct ddog_Timespec start,
                                 struct ddog_Timespec end,
                                 struct ddog_prof_Exporter_Slice_File files_to_compress_and_export,
                                 struct ddog_prof_Exporter_Slice_File files_to_export_unmodified,
                                 const struct ddog_Vec_Tag *optional_additional_tags,
                                 const struct ddog_prof_ProfiledEndpointsStats *optional_endpoints_stats,
                                 const ddog_CharSlice *optional_internal_metadata_json,
                                 const ddog_CharSlice *optional_info_json, uint64_t timeout_ms) {
  nf_error error = {0};
  nf_request *request = NULL;
  if (!files_to_compress_and_export.ptr) files_to_compress_and_export.len = 0;
  if (!files_to_export_unmodified.ptr) files_to_export_unmodified.len = 0;
  if (exporter) {
    nf_tags tags = optional_additional_tags ? nf_exporter_abi_tags(*optional_additional_tags) : (nf_tags){0};
    nf_text internal = optional_internal_metadata_json
                           ? nf_exporter_abi_text(*optional_internal_metadata_json)
                           : (nf_text){0};
    nf_text info = optional_info_json ? nf_exporter_abi_text(*optional_info_json) : (nf_text){0};
    nf_report report = {.start = {start.seconds, start.nanoseconds},
                        .end = {end.seconds, end.nanoseconds},
                        .tags = &tags,
                        .internal_json = optional_internal_metadata_json ? &internal : NULL,
                        .info_json = optional_info_json ? &info : NULL,
                        .timeout_ms = timeout_ms};
    request = build((nf_exporter *)exporter, &report, &files_to_compress_and_export,
                    &files_to_export_unmodified, optional_endpoints_stats, &error);
  } else {
    nf_error_set(&error, "exporter was null");
  }
  if (request) {
    return (ddog_prof_Exporter_Request_BuildResult){.tag = DDOG_PROF_EXPORTER_REQUEST_BUILD_RESULT_OK,
                                                    .ok = (ddog_prof_Exporter_Request *)request};
  }
  return (ddog_prof_Exporter_Request_BuildResult){.tag = DDOG_PROF_EXPORTER_REQUEST_BUILD_RESULT_ERR,
                                                  .err = nf_abi_take_error(&error)};
}

void ddog_prof_Exporter_Request_drop(struct ddog_prof_Exporter_Request **request) {
  if (!request) return;
  nf_request_drop((nf_request *)*request);
  *request = NULL;
}

static bool send_request(const nf_exporter *exporter, nf_request *request, nf_token *token, unsigned *status,
                         nf_error *error) {
  if (!request) return nf_error_set(error, "request was null");
  if (!exporter) {
    nf_request_drop(request);
    return nf_error_set(error, "exporter was null");
  }
  return nf_exporter_send(request, token, status, error);
}

struct ddog_prof_Exporter_SendResult ddog_prof_Exporter_send(struct ddog_prof_Exporter *exporter,
                                                             struct ddog_prof_Exporter_Request **request,
                                                             const struct ddog_CancellationToken *cancel) {
  nf_request *taken = request ? (nf_request *)*request : NULL;
  if (request) *request = NULL;
  unsigned status = 0;
  nf_error why = {0};
  if (send_request((nf_exporter *)exporter, taken, (nf_token *)(uintptr_t)cancel, &status, &why)) {
    return (ddog_prof_Exporter_SendResult){.tag = DDOG_PROF_EXPORTER_SEND_RESULT_HTTP_RESPONSE,
                                           .http_response = {(uint16_t)status}};
  }
  nf_error error = {0};
  nf_error_set(&error, "failed ddog_prof_Exporter_send: %s", nf_error_text(&why));
  nf_error_deinit(&why);
  return (ddog_prof_Exporter_SendResult){.tag = DDOG_PROF_EXPORTER_SEND_RESULT_ERR,
                                         .err = nf_abi_take_error(&error)};
}

struct ddog_CancellationToken *ddog_CancellationToken_new(void) {
  return (ddog_CancellationToken *)nf_token_new();
}

struct ddog_CancellationToken *ddog_CancellationToken_clone(const struct ddog_CancellationToken *token) {
  return token ? (ddog_CancellationToken *)nf_token_acquire((nf_token *)(uintptr_t)token) : NULL;
}

bool ddog_CancellationToken_cancel(const struct ddog_CancellationToken *cancel) {
  return nf_token_cancel((nf_token *)(uintptr_t)cancel);
}

void ddog_CancellationToken_drop(struct ddog_CancellationToken *token) { nf_token_drop((nf_token *)token); }

static bool upload(nf_text folder, const ddog_Endpoint *endpoint, uint64_t timeout_ms, nf_token *token,
                   nf_upload_counts *counts, nf_error *error) {
  nf_buffer path = {0};
  nf_endpoint to;
  if (folder.len == 0 || memchr(folder.ptr, 0, folder.len))
    return nf_error_set(error, "the folder's name is empty or contains a NUL byte");
  if (!init_endpoint(&to, endpoint, error)) return false;
  nf_exporter *exporter = nf_exporter_new((nf_text){0}, (nf_text){0}, (nf_text){0}, NULL, &to, error);
  nf_buffer_append(&path, folder.ptr, folder.len);
  nf_buffer_append_char(&path, 0);
  bool ok = exporter && (!path.failed || nf_error_set_no_memory(error)) &&
            nf_upload_folder(path.data, exporter, timeout_ms, token, NULL, NULL, counts, error);
  nf_buffer_deinit(&path);
  nf_exporter_drop(exporter);
  return ok;
}

struct ddog_prof_Profile_Result ddog_prof_Folder_upload(ddog_CharSlice folder, struct ddog_Endpoint endpoint,
                                                        uint64_t timeout_ms,
                                                        const struct ddog_CancellationToken *cancel,
                                                        struct ddog_prof_Folder_UploadCounts *counts) {
  nf_error error = {0};
  nf_upload_counts done = {0};
  bool ok = upload(nf_exporter_abi_text(folder), &endpoint, timeout_ms, (nf_token *)(uintptr_t)cancel, &done,
                   &error);
  if (counts) {
    *counts = (ddog_prof_Folder_UploadCounts){.accepted = done.accepted,
                                              .rejected = done.rejected,
                                              .damaged = done.damaged,
                                              .left = done.left,
                                              .last_rejection = {(uint16_t)done.last_rejection}};
  }
  if (ok) return (ddog_prof_Profile_Result){.tag = DDOG_PROF_PROFILE_RESULT_OK, .ok = true};
  return (ddog_prof_Profile_Result){.tag = DDOG_PROF_PROFILE_RESULT_ERR, .err = nf_abi_take_error(&error)};
}
