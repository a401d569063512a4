#include "exporter/host.h"

#include "exporter/env.h"
#include "exporter/fork_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool digit(char c) { return c >= '0' && c <= '9'; }
static bool hex(char c) { return digit(c) || (c >= 'a' && c <= 'f'); }

/* How many characters at the end of text are hexadecimal, at most `most`. */
static size_t hex_at_end(nf_text text, size_t most) {
  size_t n = 0;
  while (n < most && n < text.len && hex(text.ptr[text.len - 1 - n])) n++;
  return n;
}

static nf_text without_end(nf_text text, size_t len) { return (nf_text){text.ptr, text.len - len}; }

/* The three forms of an id; each gives where it begins, or SIZE_MAX. */
static size_t find_uuid(nf_text text) {
  static const size_t groups[] = {12, 4, 4, 4, 8};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
    if (hex_at_end(text, groups[i]) < groups[i]) return SIZE_MAX;
    text = without_end(text, groups[i]);
    if (i == 4) return text.len;
    if (text.len == 0 || (text.ptr[text.len - 1] != '-' && text.ptr[text.len - 1] != '_')) return SIZE_MAX;
    text = without_end(text, 1);
  }
  return SIZE_MAX;
}

static size_t find_hash(nf_text text) { return hex_at_end(text, 64) == 64 ? text.len - 64 : SIZE_MAX; }

static size_t find_task(nf_text text) {
  size_t digits = 0;
  while (digits < text.len && digit(text.ptr[text.len - 1 - digits])) digits++;
  if (digits == 0 || digits == text.len || text.ptr[text.len - 1 - digits] != '-') return SIZE_MAX;
  text = without_end(text, digits + 1);
  return hex_at_end(text, 32) == 32 ? text.len - 32 : SIZE_MAX;
}

nf_text nf_host_container_id_in(nf_text line) {
  const nf_text none = {NULL, 0};
  size_t i = 0, path;
  while (i < line.len && digit(line.ptr[i])) i++;
  if (i == 0 || i == line.len || line.ptr[i] != ':') return none;
  const char *second = memchr(line.ptr + i + 1, ':', line.len - i - 1);
  if (!second) return none;
  path = (size_t)(second + 1 - line.ptr);
  nf_text rest = {line.ptr + path, line.len - path};
  while (rest.len && strchr(" \t\r\v\f", rest.ptr[rest.len - 1])) rest.len--;
  static const char scope[] = "scope"; /* after any one character */
  size_t scope_len = sizeof scope - 1;
  if (rest.len > scope_len && memcmp(rest.ptr + rest.len - scope_len, scope, scope_len) == 0) {
    rest.len -= scope_len + 1;
    while (rest.len && ((unsigned char)rest.ptr[rest.len] & 0xC0) == 0x80)
      rest.len--; /* one character, not one byte */
  }
  size_t begins[] = {find_uuid(rest), find_hash(rest), find_task(rest)}, begin = SIZE_MAX;
  for (size_t k = 0; k < 3; k++)
    if (begins[k] < begin) begin = begins[k];
  return begin == SIZE_MAX ? none : (nf_text){rest.ptr + begin, rest.len - begin};
}

static bool read_file(const char *path, nf_buffer *out) {
  int file;
  do file = open(path, O_RDONLY | O_CLOEXEC);
  while (file < 0 && errno == EINTR);
  if (file < 0) return true; /* no such file: no container */
  enum { CHUNK = 4096, MOST = 1 << 20 };
  ssize_t got = 1;
  while (got != 0 && out->len < MOST && nf_buffer_reserve(out, CHUNK)) {
    got = read(file, out->data + out->len, CHUNK);
    if (got < 0 && errno != EINTR) break;
    if (got > 0) out->len += (size_t)got;
  }
  close(file);
  return !out->failed;
}

static bool find_container(nf_host *host) {
  nf_buffer text = {0};
  bool ok = read_file("/proc/self/cgroup", &text);
  for (size_t begin = 0; ok && begin < text.len;) {
    const char *newline = memchr(text.data + begin, '\n', text.len - begin);
    size_t end = newline ? (size_t)(newline - text.data) : text.len;
    nf_text id = nf_host_container_id_in((nf_text){text.data + begin, end - begin});
    if (id.len && id.len < sizeof host->container_id) {
      memcpy(host->container_id, id.ptr, id.len);
      break;
    }
    begin = end + 1;
  }
  nf_buffer_deinit(&text);
  return ok;
}

/* ---- Azure App Services ---- */

enum { SWITCH, EXTENSION, INSTANCE_ID, INSTANCE_NAME, OS, GROUP, SITE, OWNER, WORKER, FUNCTIONS, AAS_COUNT };
static const char *const AAS[AAS_COUNT] = {"DD_AZURE_APP_SERVICES",
                                           "DD_AAS_DOTNET_EXTENSION_VERSION",
                                           "WEBSITE_INSTANCE_ID",
                                           "COMPUTERNAME",
                                           "WEBSITE_OS",
                                           "WEBSITE_RESOURCE_GROUP",
                                           "WEBSITE_SITE_NAME",
                                           "WEBSITE_OWNER_NAME",
                                           "FUNCTIONS_WORKER_RUNTIME",
                                           "FUNCTIONS_EXTENSION_VERSION"};

static bool means_yes(nf_text text) {
  static const char *const words[] = {"true", "t", "y", "1", "yes"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (nf_text_equal_ignoring_case(text, nf_text_of(words[i]))) return true;
  return false;
}

static void append_lower(nf_buffer *out, nf_text text) {
  for (size_t i = 0; i < text.len; i++) {
    char c = text.ptr[i];
    nf_buffer_append_char(out, c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c);
  }
}

/* False only when out of memory: a tag that is not valid is left out. */
static bool add(nf_tags *tags, const char *key, nf_text value) {
  nf_error why = {0};
  size_t before = tags->len;
  nf_tags_push_pair(tags, nf_text_of(key), value, &why);
  bool invalid = why.text && strstr(why.text, "colon");
  nf_error_deinit(&why);
  return tags->len > before || invalid;
}

static bool find_app_service(nf_host *host) {
  char *values[AAS_COUNT];
  if (!nf_env_read(AAS, values, AAS_COUNT)) return false;
  nf_text known[AAS_COUNT];
  const nf_text unknown = nf_text_of("unknown");
  for (int i = 0; i < AAS_COUNT; i++) known[i] = values[i] ? nf_text_trim(nf_text_of(values[i])) : unknown;
  bool ok = true;
  if (values[SWITCH] && means_yes(known[SWITCH])) {
    nf_text subscription = unknown;
    if (values[OWNER]) {
      const char *plus = memchr(known[OWNER].ptr, '+', known[OWNER].len);
      subscription = (nf_text){known[OWNER].ptr, plus ? (size_t)(plus - known[OWNER].ptr) : known[OWNER].len};
      if (subscription.len == 0) subscription = unknown;
    }
    bool function = values[WORKER] || values[FUNCTIONS];
    nf_buffer id = {0};
    if (values[GROUP] && values[SITE] && subscription.ptr != unknown.ptr) {
      nf_buffer_append_text(&id, "/subscriptions/");
      append_lower(&id, subscription);
      nf_buffer_append_text(&id, "/resourcegroups/");
      append_lower(&id, known[GROUP]);
      nf_buffer_append_text(&id, "/providers/microsoft.web/sites/");
      append_lower(&id, known[SITE]);
    } else {
      nf_buffer_append(&id, unknown.ptr, unknown.len);
    }
    nf_tags *tags = &host->app_service_tags;
    ok = !id.failed && add(tags, "aas.resource.id", (nf_text){id.data, id.len}) &&
         add(tags, "aas.environment.extension_version", known[EXTENSION]) &&
         add(tags, "aas.environment.instance_id", known[INSTANCE_ID]) &&
         add(tags, "aas.environment.instance_name", known[INSTANCE_NAME]) &&
         add(tags, "aas.environment.os", known[OS]) && add(tags, "aas.resource.group", known[GROUP]) &&
         add(tags, "aas.site.name", known[SITE]) &&
         add(tags, "aas.site.kind", nf_text_of(function ? "functionapp" : "app")) &&
         add(tags, "aas.site.type", nf_text_of(function ? "function" : "app")) &&
         add(tags, "aas.subscription.id", subscription);
    nf_buffer_deinit(&id);
  }
  for (int i = 0; i < AAS_COUNT; i++) free(values[i]);
  return ok;
}

const nf_host *nf_host_get(nf_error *error) {
  static nf_host host;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* only ever held inside the fork guard */
  nf_fork_guard_enter();
  pthread_mutex_lock(&lock);
  if (!host.known) {
    host.known = find_container(&host) && find_app_service(&host);
    if (!host.known) {
      nf_tags_deinit(&host.app_service_tags);
      host = (nf_host){0};
      nf_error_set_no_memory(error);
    }
  }
  bool known = host.known;
  pthread_mutex_unlock(&lock);
  nf_fork_guard_leave();
  return known ? &host : NULL;
}
