#include "exporter/exporter.h"

#include "exporter/delivery.h"
#include "exporter/env.h"
#include "exporter/fork_guard.h"

#include <stdlib.h>
#include <string.h>

enum { CERT_FILE, PROXY, PROXY_UPPER, NO_PROXY, NO_PROXY_UPPER, VARIABLE_COUNT };
static const char *const VARIABLES[VARIABLE_COUNT] = {"SSL_CERT_FILE", "https_proxy", "HTTPS_PROXY",
                                                      "no_proxy", "NO_PROXY"};

/* Whether the list (names separated by commas or blanks) exempts the host: itself, a domain it lies in, or
 * "*". */
static bool exempt(const char *list, const char *host) {
  size_t host_len = strlen(host);
  for (const char *p = list; p && *p;) {
    size_t len = strcspn(p, ", ");
    const char *name = p;
    p += len + strspn(p + len, ", ");
    if (len == 1 && *name == '*') return true;
    if (len && *name == '.') name++, len--;
    if (len == 0 || len > host_len) continue;
    bool ends_so = nf_text_equal_ignoring_case((nf_text){host + host_len - len, len}, (nf_text){name, len});
    if (ends_so && (len == host_len || host[host_len - len - 1] == '.')) return true;
  }
  return false;
}

static bool not_empty(const char *text) { return text && *text; }

/* SSL_CERT_FILE for all TLS; proxies only without an agent: traffic to an agent stays direct. */
static bool read_settings(nf_tls_settings *settings, const nf_endpoint *endpoint) {
  char *values[VARIABLE_COUNT];
  if (!nf_env_read(VARIABLES, values, VARIABLE_COUNT)) return false;
  if (not_empty(values[CERT_FILE])) {
    settings->ca_file = values[CERT_FILE];
    values[CERT_FILE] = NULL;
  }
  int proxy = values[PROXY] ? PROXY : PROXY_UPPER;
  const char *list = values[NO_PROXY] ? values[NO_PROXY] : values[NO_PROXY_UPPER];
  if (endpoint->agentless && not_empty(values[proxy]) && !exempt(list, endpoint->address)) {
    settings->proxy = values[proxy];
    values[proxy] = NULL;
  }
  for (int i = 0; i < VARIABLE_COUNT; i++) free(values[i]);
  return true;
}

/* Here and not at the first report: what is loaded reads the environment by getenv, which other threads may
 * be changing by then; the thread that makes an exporter in a Ruby program holds off Ruby's ENV. Whether it
 * works is for the report to say. */
static void load_early(void) {
  nf_error ignored = {0};
  nf_tls_load(&ignored);
  nf_error_deinit(&ignored);
}

nf_exporter *nf_exporter_new(nf_text library_name, nf_text library_version, nf_text family,
                             const nf_tags *tags, nf_endpoint *endpoint, nf_error *error) {
  nf_exporter *exporter = nf_fork_guard_prepare() ? nf_zeroed(1, sizeof *exporter) : NULL;
  if (!exporter) {
    nf_endpoint_deinit(endpoint);
    nf_error_set_no_memory(error);
    return NULL;
  }
  exporter->endpoint = *endpoint;
  *endpoint = (nf_endpoint){0};
  nf_text_append_lossy(&exporter->library_name, library_name);
  nf_text_append_lossy(&exporter->library_version, library_version);
  nf_text_append_lossy(&exporter->family, family);
  bool ok = !exporter->library_name.failed && !exporter->library_version.failed && !exporter->family.failed;
  if (ok && exporter->endpoint.kind == NF_ENDPOINT_HTTPS) {
    ok = read_settings(&exporter->tls, &exporter->endpoint);
    load_early();
  }
  if (!ok) nf_error_set_no_memory(error);
  if (ok && nf_tags_copy(&exporter->tags, tags, error)) return exporter;
  nf_exporter_drop(exporter);
  return NULL;
}

void nf_exporter_drop(nf_exporter *exporter) {
  if (!exporter) return;
  nf_endpoint_deinit(&exporter->endpoint);
  nf_tls_settings_deinit(&exporter->tls);
  nf_tags_deinit(&exporter->tags);
  nf_buffer_deinit(&exporter->library_name);
  nf_buffer_deinit(&exporter->library_version);
  nf_buffer_deinit(&exporter->family);
  free(exporter);
}
