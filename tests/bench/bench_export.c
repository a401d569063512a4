#include "tests/bench/bench_export.h"

#include <stdlib.h>
#include <string.h>

#include "tests/bench/library.h"
#include "tests/bench/loopback.h"
#include "tests/bench/measure.h"

enum { BODY = 1 << 20, REPORTS = 10 };

enum {
  FIRST_NEW_MS,
  FIRST_NEW_RSS,
  FIRST_SEND_MS,
  FIRST_SEND_RSS,
  THREADS_BEFORE,
  THREADS_AFTER_NEW,
  THREADS_DURING_SEND,
  THREADS_AFTER_SEND,
  THREADS_AFTER_DROP,
  NEW_MS,
  DROP_MS,
  BUILD_MS,
  SEND_MS,
  SEND_WALL_MS,
  ALL_MS,
  MALLOCS,
  REQUEST_BYTES,
  STATUS,
  N_EXPORT_METRICS
};
static const char *const EXPORT_NAMES[N_EXPORT_METRICS] = {
    "1st Exporter_new ms (cpu)",
    "1st Exporter_new RSS kB",
    "1st send ms (cpu)",
    "1st build+send RSS kB",
    "threads before",
    "threads after new",
    "threads during send",
    "threads after send",
    "threads after drop",
    "Exporter_new ms (cpu)",
    "Exporter_drop ms (cpu)",
    "Request_build ms (cpu)",
    "send ms (cpu)",
    "send ms (wall)",
    "all of one export ms (cpu)",
    "mallocs of one export",
    "request bytes",
    "HTTP status",
};

static const char *const *library_paths;

static ddog_CharSlice slice(const char *s) { return (ddog_CharSlice){s, strlen(s)}; }

static ddog_prof_Exporter *new_exporter(const char *url) {
  static const char *const tags[][2] = {
      {"service", "shop"},  {"env", "production"},      {"version", "1.2.3"},   {"host", "web-1"},
      {"language", "ruby"}, {"runtime-id", "0a1b2c3d"}, {"process_id", "1234"},
  };
  ddog_Vec_Tag all = library.ddog_Vec_Tag_new();
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
    ddog_Vec_Tag_PushResult r = library.ddog_Vec_Tag_push(&all, slice(tags[i][0]), slice(tags[i][1]));
    if (r.tag != DDOG_VEC_TAG_PUSH_RESULT_OK) library_fail("Vec_Tag_push", &r.err);
  }
  ddog_prof_Exporter_NewResult r = library.ddog_prof_Exporter_new(
      slice("dd-trace-rb"), slice("2.0.0"), slice("ruby"), &all, library.ddog_Endpoint_agent(slice(url)));
  if (r.tag != DDOG_PROF_EXPORTER_NEW_RESULT_OK) library_fail("Exporter_new", &r.err);
  library.ddog_Vec_Tag_drop(all);
  return r.ok;
}

static ddog_prof_Exporter_Request *build(ddog_prof_Exporter *exporter, const uint8_t *body) {
  ddog_prof_Exporter_File pprof = {slice("rubyprofile.pprof"), {body, BODY}};
  ddog_CharSlice internal = slice("{\"no_signals_workaround_enabled\":false}");
  ddog_CharSlice info = slice("{\"application\":{\"env\":\"production\"}}");
  ddog_prof_Exporter_Request_BuildResult r = library.ddog_prof_Exporter_Request_build(
      exporter, (ddog_Timespec){1700000000, 0}, (ddog_Timespec){1700000060, 0},
      (ddog_prof_Exporter_Slice_File){(void *)8, 0}, (ddog_prof_Exporter_Slice_File){&pprof, 1}, NULL, NULL,
      &internal, &info, 30000);
  if (r.tag != DDOG_PROF_EXPORTER_REQUEST_BUILD_RESULT_OK) library_fail("Request_build", &r.err);
  return r.ok;
}

/* dd-trace-rb makes and drops an exporter for every report. */
static void report(const char *url, const uint8_t *body, const loopback *server, bool first, double *m) {
  uint64_t mallocs = n_mallocs;
  double rss = process_status("VmRSS:"), at = cpu_now();
  ddog_prof_Exporter *exporter = new_exporter(url);
  double made = cpu_now() - at, rss_made = process_status("VmRSS:"),
         threads_made = process_status("Threads:");

  at = cpu_now();
  ddog_prof_Exporter_Request *request = build(exporter, body);
  ddog_CancellationToken *cancel = library.ddog_CancellationToken_new();
  double built = cpu_now() - at, wall = wall_now();
  at = cpu_now();
  ddog_prof_Exporter_SendResult sent = library.ddog_prof_Exporter_send(exporter, &request, cancel);
  double send = cpu_now() - at, send_wall = wall_now() - wall;
  if (sent.tag != DDOG_PROF_EXPORTER_SEND_RESULT_HTTP_RESPONSE) library_fail("Exporter_send", &sent.err);

  double rss_sent = process_status("VmRSS:"), threads_sent = process_status("Threads:");
  at = cpu_now();
  library.ddog_CancellationToken_drop(cancel);
  library.ddog_prof_Exporter_drop(exporter);
  double dropped = cpu_now() - at;
  if (first) {
    m[FIRST_NEW_MS] = made * 1e3;
    m[FIRST_NEW_RSS] = rss_made - rss;
    m[FIRST_SEND_MS] = send * 1e3;
    m[FIRST_SEND_RSS] = rss_sent - rss_made;
    m[THREADS_AFTER_NEW] = threads_made;
    m[THREADS_DURING_SEND] = server->seen->threads;
    m[THREADS_AFTER_SEND] = threads_sent;
    m[THREADS_AFTER_DROP] = process_status("Threads:");
    return;
  }
  m[NEW_MS] += made * 1e3 / REPORTS;
  m[DROP_MS] += dropped * 1e3 / REPORTS;
  m[BUILD_MS] += built * 1e3 / REPORTS;
  m[SEND_MS] += send * 1e3 / REPORTS;
  m[SEND_WALL_MS] += send_wall * 1e3 / REPORTS;
  m[ALL_MS] += (made + built + send + dropped) * 1e3 / REPORTS;
  m[MALLOCS] += (double)(n_mallocs - mallocs) / REPORTS;
  m[REQUEST_BYTES] = (double)server->seen->bytes;
  m[STATUS] = sent.http_response.code;
}

static void run_export(int contender, const void *host, double *m) {
  loopback server = loopback_start();
  char url[64];
  snprintf(url, sizeof url, "http://%s:%d/", (const char *)host, server.port);
  uint8_t *body = malloc(BODY);
  if (!body) DIE("out of memory");
  random_seed(1);
  for (int i = 0; i < BODY; i++) body[i] = (uint8_t)random_u64();
  library_open(library_paths[contender]);
  m[THREADS_BEFORE] = process_status("Threads:");
  for (int i = 0; i <= REPORTS; i++) report(url, body, &server, i == 0, m);
  loopback_stop(&server);
  free(body);
}

void bench_export(const comparison *c, const char *const *paths) {
  library_paths = paths;
  compare(c, "export", "export: 1 MB to http://127.0.0.1, a new exporter each time", EXPORT_NAMES,
          N_EXPORT_METRICS, run_export, "127.0.0.1");
  compare(c, "export by name", "export: the same to http://localhost", EXPORT_NAMES, N_EXPORT_METRICS,
          run_export, "localhost");
}
