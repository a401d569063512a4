#include "exporter/request.h"

#include "exporter/exporter.h"
#include "exporter/host.h"
#include "exporter/json.h"

#include <errno.h>
#include <fcntl.h>
#include <lz4frame.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static const char USER_AGENT[] = "DDProf/6.0.0";
enum {
  PART_OVERHEAD = 256,
  EVENT_USUALLY = 4096,
  NS_PER_S = 1000000000,
  SECONDS_PER_DAY = 86400,
  FIRST_YEAR = -262144,
  LAST_YEAR = 262143
};

static nf_text view(const nf_buffer *buffer) { return (nf_text){buffer->data, buffer->len}; }

bool nf_moment_append(nf_buffer *out, nf_moment moment) {
  int64_t seconds = moment.seconds;
  uint32_t nanoseconds = moment.nanoseconds % NS_PER_S, carry = moment.nanoseconds / NS_PER_S;
  if (seconds > INT64_MAX - carry) return false;
  seconds += carry;
  int64_t days = seconds / SECONDS_PER_DAY, second = seconds % SECONDS_PER_DAY;
  if (second < 0) second += SECONDS_PER_DAY, days--;
  /* Civil date in a calendar of 400-year cycles (146 097 days) whose years begin in March. */
  if (days < -100000000 || days > 100000000) return false;
  int64_t z = days + 719468, cycle = (z >= 0 ? z : z - 146096) / 146097;
  int64_t in_cycle = z - cycle * 146097;
  int64_t year_of_cycle = (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / 146096) / 365;
  int64_t day_of_year = in_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
  int64_t month_from_march = (5 * day_of_year + 2) / 153;
  int day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1);
  int month = (int)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
  int64_t year = year_of_cycle + cycle * 400 + (month <= 2);
  if (year < FIRST_YEAR || year > LAST_YEAR) return false;
  nf_buffer_append_format(out, year >= 0 && year <= 9999 ? "%04d" : "%+05d", (int)year);
  nf_buffer_append_format(out, "-%02d-%02dT%02d:%02d:%02d.%09uZ", month, day, (int)(second / 3600),
                          (int)(second / 60 % 60), (int)(second % 60), nanoseconds);
  return true;
}

/* ---- event.json ---- */

static nf_text printable_name(nf_text name) {
  nf_error ignored = {0};
  bool ok = nf_text_check_utf8(name, &ignored);
  nf_error_deinit(&ignored);
  return ok ? name : nf_text_of("{invalid utf-8}");
}

static void append_attachments(nf_buffer *event, const nf_report *report) {
  nf_buffer_append_char(event, '[');
  for (size_t i = 0; i < report->file_to_compress_count + report->file_count; i++) {
    const nf_file *file = i < report->file_to_compress_count
                              ? &report->files_to_compress[i]
                              : &report->files[i - report->file_to_compress_count];
    if (i) nf_buffer_append_char(event, ',');
    nf_json_append_string(event, printable_name(file->name));
  }
  nf_buffer_append_char(event, ']');
}

static void append_counts(nf_buffer *event, const nf_report *report) {
  if (!report->with_endpoint_counts) {
    nf_buffer_append_text(event, "null");
    return;
  }
  nf_buffer_append_char(event, '{');
  for (size_t i = 0; i < report->endpoint_count_count; i++) {
    if (i) nf_buffer_append_char(event, ',');
    nf_json_append_string(event, report->endpoint_counts[i].name);
    nf_buffer_append_format(event, ":%lld", (long long)report->endpoint_counts[i].count);
  }
  nf_buffer_append_char(event, '}');
}

static bool append_user_json(nf_buffer *event, const nf_text *json, const char *what, nf_error *error) {
  if (!json) {
    nf_buffer_append_text(event, "{}");
    return true;
  }
  if (!nf_text_check_utf8(*json, error)) return false;
  nf_error why = {0};
  bool ok = nf_json_canonicalize(event, *json, &why);
  if (!ok) {
    nf_error_set(error, "Failed to parse contents of %s json string (`%.*s`): %s.", what,
                 json->len > INT32_MAX ? INT32_MAX : (int)json->len, json->ptr ? json->ptr : "",
                 nf_error_text(&why));
  }
  nf_error_deinit(&why);
  return ok;
}

static bool append_tags(nf_buffer *event, const nf_exporter *exporter, const nf_report *report,
                        const nf_host *host) {
  nf_buffer joined = {0};
  bool first = true;
  nf_tags_join(&exporter->tags, &joined, &first);
  nf_tags_join(report->tags, &joined, &first);
  nf_tags_join(&host->app_service_tags, &joined, &first);
  nf_json_append_string(event, view(&joined));
  bool ok = !joined.failed;
  nf_buffer_deinit(&joined);
  return ok;
}

static bool build_event(nf_buffer *event, const nf_exporter *exporter, const nf_report *report,
                        const nf_host *host, nf_error *error) {
  /* The caller's JSON is checked first, internal before info, whatever the order of the keys. */
  nf_buffer internal = {0}, info = {0};
  bool ok = append_user_json(&internal, report->internal_json, "internal_metadata", error) &&
            append_user_json(&info, report->info_json, "info", error);
  if (ok) {
    nf_buffer_append_text(event, "{\"attachments\":");
    append_attachments(event, report);
    nf_buffer_append_text(event, ",\"end\":\"");
    ok =
        nf_moment_append(event, report->end) || nf_error_set(error, "the end of the profile is out of range");
  }
  if (ok) {
    nf_buffer_append_text(event, "\",\"endpoint_counts\":");
    append_counts(event, report);
    nf_buffer_append_text(event, ",\"family\":");
    nf_json_append_string(event, view(&exporter->family));
    nf_buffer_append_text(event, ",\"info\":");
    nf_buffer_append(event, info.data, info.len);
    nf_buffer_append_text(event, ",\"internal\":");
    nf_buffer_append(event, internal.data, internal.len);
    nf_buffer_append_text(event, ",\"start\":\"");
    ok = nf_moment_append(event, report->start) ||
         nf_error_set(error, "the start of the profile is out of range");
  }
  if (ok) {
    nf_buffer_append_text(event, "\",\"tags_profiler\":");
    bool joined = append_tags(event, exporter, report, host);
    nf_buffer_append_text(event, ",\"version\":\"4\"}");
    if (!joined || event->failed || internal.failed || info.failed) ok = nf_error_set_no_memory(error);
  }
  nf_buffer_deinit(&internal);
  nf_buffer_deinit(&info);
  return ok;
}

/* ---- the multipart body ---- */

static void make_boundary(char *boundary, size_t len) {
  static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  unsigned char random[64];
  size_t got = 0;
  while (got < len) {
    ssize_t more = getrandom(random + got, len - got, 0);
    if (more > 0)
      got += (size_t)more;
    else if (errno != EINTR)
      break;
  }
  if (got < len) { /* a kernel without getrandom: it need not be secret, only unlikely */
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t x =
        (uint64_t)t.tv_nsec ^ (uint64_t)t.tv_sec << 30 ^ (uint64_t)getpid() << 48 ^ (uintptr_t)boundary;
    for (; got < len; got++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      random[got] = (unsigned char)(x >> 56);
    }
  }
  for (size_t i = 0; i < len; i++) boundary[i] = alphabet[random[i] % (sizeof alphabet - 1)];
  boundary[len] = 0;
}

/* In a quoted parameter, as browsers write it. */
static void append_parameter(nf_buffer *body, nf_text value) {
  for (size_t i = 0; i < value.len; i++) {
    char c = value.ptr[i];
    if (c == '"')
      nf_buffer_append_text(body, "%22");
    else if (c == '\r')
      nf_buffer_append_text(body, "%0D");
    else if (c == '\n')
      nf_buffer_append_text(body, "%0A");
    else
      nf_buffer_append_char(body, c);
  }
}

static void begin_part(nf_request *request, nf_text name, nf_text file_name, const char *type) {
  nf_buffer *body = &request->body;
  nf_buffer_append_format(body, "--%s\r\ncontent-type: %s\r\ncontent-disposition: form-data; name=\"",
                          request->boundary, type);
  append_parameter(body, name);
  nf_buffer_append_text(body, "\"; filename=\"");
  append_parameter(body, file_name);
  nf_buffer_append_text(body, "\"\r\n\r\n");
}

static const LZ4F_preferences_t LZ4_SETTINGS = {
    .frameInfo = {.blockSizeID = LZ4F_max64KB, .blockMode = LZ4F_blockIndependent},
};

static bool append_compressed(nf_buffer *body, const nf_file *file, nf_error *error) {
  size_t bound = LZ4F_compressFrameBound(file->len, &LZ4_SETTINGS);
  if (file->len > PTRDIFF_MAX / 2 || !nf_buffer_reserve(body, bound)) return nf_error_set_no_memory(error);
  size_t written = LZ4F_compressFrame(body->data + body->len, bound,
                                      file->data ? (const void *)file->data : "", file->len, &LZ4_SETTINGS);
  if (LZ4F_isError(written))
    return nf_error_set(error, "failed to compress a file: %s", LZ4F_getErrorName(written));
  body->len += written;
  return true;
}

static bool append_file(nf_request *request, const nf_file *file, bool compress, nf_error *error) {
  nf_text name = printable_name(file->name);
  begin_part(request, name, name, "application/octet-stream");
  struct nf_request_part *part = &request->parts[request->part_count++];
  *part = (struct nf_request_part){.name = request->names.len, .name_len = name.len, .compressed = compress};
  nf_buffer_append(&request->names, name.ptr, name.len);
  part->data = request->body.len;
  if (!compress)
    nf_buffer_append(&request->body, file->data, file->len);
  else if (!append_compressed(&request->body, file, error))
    return false;
  part->len = request->body.len - part->data;
  nf_buffer_append_text(&request->body, "\r\n");
  return true;
}

/* The files and what surrounds them. Files to compress are made room for one by one: they are not large. */
static size_t room_for_files(const nf_report *report) {
  size_t room = (report->file_to_compress_count + report->file_count + 1) * PART_OVERHEAD;
  for (size_t i = 0; i < report->file_count; i++) room += report->files[i].len;
  return room;
}

static bool build_body(nf_request *request, const nf_report *report, nf_error *error) {
  size_t files = report->file_to_compress_count + report->file_count;
  request->parts = nf_zeroed(files ? files : 1, sizeof *request->parts);
  if (!request->parts || !nf_buffer_reserve(&request->body, request->event.len + room_for_files(report)))
    return nf_error_set_no_memory(error);
  make_boundary(request->boundary, sizeof request->boundary - 1);
  begin_part(request, nf_text_of("event"), nf_text_of("event.json"), "application/json");
  nf_buffer_append(&request->body, request->event.data, request->event.len);
  nf_buffer_append_text(&request->body, "\r\n");
  for (size_t i = 0; i < report->file_to_compress_count; i++)
    if (!append_file(request, &report->files_to_compress[i], true, error)) return false;
  for (size_t i = 0; i < report->file_count; i++)
    if (!append_file(request, &report->files[i], false, error)) return false;
  nf_buffer_append_format(&request->body, "--%s--\r\n", request->boundary);
  return (!request->body.failed && !request->names.failed) || nf_error_set_no_memory(error);
}

/* ---- the head ---- */

static bool append_header(nf_buffer *head, const char *name, nf_text value) {
  for (size_t i = 0; i < value.len; i++) {
    unsigned char c = (unsigned char)value.ptr[i];
    if ((c < 0x20 && c != '\t') || c == 0x7F) return false;
  }
  nf_buffer_append_text(head, name);
  nf_buffer_append_text(head, ": ");
  nf_buffer_append(head, value.ptr, value.len);
  nf_buffer_append_text(head, "\r\n");
  return true;
}

typedef struct identity {
  nf_text user_agent, container_id, library_name, library_version;
} identity;

static bool build_head(nf_request *request, const identity *from, nf_error *error) {
  const nf_endpoint *to = &request->endpoint;
  nf_buffer *head = &request->head;
  head->secret = true;
  nf_buffer_append_format(head, "POST %s HTTP/1.1\r\n", to->path ? to->path : "/");
  bool ok = append_header(head, "user-agent", from->user_agent) &&
            (!to->api_key || append_header(head, "dd-api-key", nf_text_of(to->api_key))) &&
            (!from->container_id.len || append_header(head, "datadog-container-id", from->container_id)) &&
            append_header(head, "connection", nf_text_of("close")) &&
            append_header(head, "dd-evp-origin", from->library_name) &&
            append_header(head, "dd-evp-origin-version", from->library_version);
  nf_buffer_append_format(head, "content-type: multipart/form-data; boundary=%s\r\n", request->boundary);
  ok = ok && append_header(head, "host", nf_text_of(to->host ? to->host : ""));
  nf_buffer_append_text(head, "transfer-encoding: chunked\r\n\r\n");
  if (!ok) return nf_error_set(error, "failed to parse header value");
  return !head->failed || nf_error_set_no_memory(error);
}

/* Where it goes, and how. */
static bool address(nf_request *request, const nf_exporter *exporter, nf_error *error) {
  return nf_endpoint_copy(&request->endpoint, &exporter->endpoint, error) &&
         (nf_tls_settings_copy(&request->tls, &exporter->tls) || nf_error_set_no_memory(error));
}

nf_request *nf_request_build(const nf_exporter *exporter, const nf_report *report, nf_error *error) {
  nf_request *request = nf_zeroed(1, sizeof *request);
  if (!request) {
    nf_error_set_no_memory(error);
    return NULL;
  }
  request->timeout_ms = report->timeout_ms;
  /* The one large block first: then the one of the report before this one fits again, not yet cut up by
   * small ones. */
  nf_buffer_reserve(&request->body, room_for_files(report) + EVENT_USUALLY);
  const nf_host *host = nf_host_get(error);
  bool ok = host && build_event(&request->event, exporter, report, host, error) &&
            address(request, exporter, error) && build_body(request, report, error);
  if (ok) {
    identity who = {nf_text_of(USER_AGENT), nf_text_of(host->container_id), view(&exporter->library_name),
                    view(&exporter->library_version)};
    ok = build_head(request, &who, error);
  }
  if (ok) return request;
  nf_request_drop(request);
  return NULL;
}

nf_request *nf_request_rebuild(const nf_exporter *exporter, const nf_stored_report *stored, nf_error *error) {
  nf_request *request = nf_zeroed(1, sizeof *request);
  if (!request) {
    nf_error_set_no_memory(error);
    return NULL;
  }
  request->timeout_ms = stored->timeout_ms;
  nf_buffer_append(&request->event, stored->event.ptr, stored->event.len);
  nf_report files = {.files = stored->files, .file_count = stored->file_count};
  identity who = {stored->user_agent, stored->container_id, stored->library_name, stored->library_version};
  bool ok = (!request->event.failed || nf_error_set_no_memory(error)) && address(request, exporter, error) &&
            build_body(request, &files, error) && build_head(request, &who, error);
  if (ok) return request;
  nf_request_drop(request);
  return NULL;
}

void nf_request_drop(nf_request *request) {
  if (!request) return;
  nf_endpoint_deinit(&request->endpoint);
  nf_tls_settings_deinit(&request->tls);
  nf_buffer_deinit(&request->head);
  nf_buffer_deinit(&request->body);
  nf_buffer_deinit(&request->event);
  nf_buffer_deinit(&request->names);
  free(request->parts);
  free(request);
}

bool nf_tls_settings_copy(nf_tls_settings *settings, const nf_tls_settings *from) {
  *settings = (nf_tls_settings){0};
  return nf_text_copy_string(&settings->ca_file, from->ca_file) &&
         nf_text_copy_string(&settings->proxy, from->proxy);
}

void nf_tls_settings_deinit(nf_tls_settings *settings) {
  if (settings->proxy) explicit_bzero(settings->proxy, strlen(settings->proxy)); /* it may name a user */
  free(settings->proxy);
  free(settings->ca_file);
  *settings = (nf_tls_settings){0};
}
