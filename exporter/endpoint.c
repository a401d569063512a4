#include "exporter/endpoint.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_URL = 65534, MAX_SCHEME = 64, MAX_PORT = 65535 };

static const char AGENT_PATH[] = "/profiling/v1/input";

/* A URL taken apart; all parts borrowed from it. */
typedef struct url {
  bool absolute; /* has a scheme */
  nf_text scheme, authority, path;
} url;

static bool alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* The length of "scheme" in "scheme://...", or SIZE_MAX. */
static size_t find_scheme(nf_text text) {
  for (size_t i = 0; i + 2 < text.len; i++) {
    char c = text.ptr[i];
    if (c == ':') return text.ptr[i + 1] == '/' && text.ptr[i + 2] == '/' ? i : SIZE_MAX;
    if (!alphanumeric(c) && !strchr("+-.", c)) return SIZE_MAX;
  }
  return SIZE_MAX;
}

/* Cuts the authority off the front of the rest. */
static bool take_authority(nf_text *rest, nf_text *authority, nf_error *error) {
  unsigned colons = 0;
  bool opened = false, closed = false, percent = false;
  size_t end = 0, at_sign = SIZE_MAX;
  for (; end < rest->len; end++) {
    char c = rest->ptr[end];
    if (c == '/' || c == '?' || c == '#') break;
    switch (c) {
    case ':':
      colons++;
      break;
    case '%':
      percent = true;
      break;
    case '[':
      if (percent || opened) return nf_error_set(error, "invalid authority");
      opened = true;
      break;
    case ']':
      if (closed) return nf_error_set(error, "invalid authority");
      closed = true;
      colons = 0;
      percent = false;
      break;
    case '@':
      at_sign = end;
      colons = 0;
      percent = false;
      break;
    default:
      if (!alphanumeric(c) && (c == 0 || !strchr("!$&'()*+,-.;=_~", c)))
        return nf_error_set(error, "invalid uri character");
    }
  }
  if (opened != closed || colons > 1 || percent || (end > 0 && at_sign == end - 1))
    return nf_error_set(error, "invalid authority");
  *authority = (nf_text){rest->ptr, end};
  *rest = (nf_text){rest->ptr + end, rest->len - end};
  return true;
}

/* Leaves the path only: a query is checked and dropped, a fragment dropped. */
static bool take_path(nf_text *rest, nf_error *error) {
  size_t path_end = SIZE_MAX;
  for (size_t i = 0; i < rest->len; i++) {
    unsigned char c = (unsigned char)rest->ptr[i];
    if (c == '#') {
      rest->len = i;
      break;
    }
    if (c == '?' && path_end == SIZE_MAX) path_end = i;
    bool in_path = path_end == SIZE_MAX;
    if (c <= ' ' || c >= 0x7F || c == '<' || c == '>' || (in_path && c == '`'))
      return nf_error_set(error, "invalid uri character");
  }
  if (path_end < rest->len) rest->len = path_end;
  return true;
}

static bool parse(nf_text text, url *parts, nf_error *error) {
  *parts = (url){0};
  if (!nf_text_check_utf8(text, error)) return false;
  if (text.len == 0) return nf_error_set(error, "empty string");
  if (text.len > MAX_URL) return nf_error_set(error, "uri too long");
  if (text.ptr[0] == '/' || (text.len == 1 && text.ptr[0] == '*')) {
    parts->path = text;
    return text.ptr[0] == '*' || take_path(&parts->path, error);
  }
  size_t scheme = find_scheme(text);
  nf_text rest = text;
  if (scheme != SIZE_MAX) {
    if (scheme > MAX_SCHEME) return nf_error_set(error, "scheme too long");
    parts->absolute = true;
    parts->scheme = (nf_text){text.ptr, scheme};
    rest = (nf_text){text.ptr + scheme + 3, text.len - scheme - 3};
  }
  if (!take_authority(&rest, &parts->authority, error)) return false;
  if (parts->absolute ? parts->authority.len == 0 : rest.len != 0)
    return nf_error_set(error, "invalid format");
  parts->path = rest;
  return take_path(&parts->path, error);
}

static bool set_address(nf_endpoint *endpoint, nf_endpoint_kind kind, nf_text address) {
  endpoint->kind = kind;
  endpoint->address = nf_text_copy(address);
  endpoint->address_len = address.len;
  return endpoint->address != NULL;
}

static bool set_reason(nf_endpoint *endpoint, const char *before, nf_text what, const char *after,
                       nf_text again) {
  nf_buffer reason = {0};
  nf_buffer_append_text(&reason, before);
  nf_buffer_append(&reason, what.ptr, what.len);
  nf_buffer_append_text(&reason, after);
  nf_buffer_append(&reason, again.ptr, again.len);
  bool ok =
      !reason.failed && set_address(endpoint, NF_ENDPOINT_UNREACHABLE, (nf_text){reason.data, reason.len});
  nf_buffer_deinit(&reason);
  return ok;
}

/* Host and port from an authority, whose syntax was checked. False when out of memory. */
static bool set_host(nf_endpoint *endpoint, nf_text authority, bool tls) {
  for (size_t i = authority.len; i > 0; i--) {
    if (authority.ptr[i - 1] != '@') continue;
    authority = (nf_text){authority.ptr + i, authority.len - i};
    break;
  }
  size_t host_len = authority.len;
  for (size_t i = authority.len; i > 0 && authority.ptr[i - 1] != ']'; i--) {
    if (authority.ptr[i - 1] == ':') host_len = i - 1;
  }
  nf_text host = {authority.ptr, host_len}, port = {NULL, 0};
  if (host_len < authority.len) port = (nf_text){authority.ptr + host_len + 1, authority.len - host_len - 1};

  unsigned usual = tls ? 443 : 80, number = port.len ? 0 : usual;
  for (size_t i = 0; i < port.len; i++) {
    bool digit = port.ptr[i] >= '0' && port.ptr[i] <= '9';
    if (digit) number = number * 10 + (unsigned)(port.ptr[i] - '0');
    if (!digit || number > MAX_PORT)
      return set_reason(endpoint, "error trying to connect: invalid port ", port, ": invalid port ", port);
  }
  if (host.len == 0)
    return set_reason(endpoint, "error trying to connect: no host in the URL: no host in the URL", host, "",
                      host);
  endpoint->port = number;

  nf_buffer header = {0};
  nf_buffer_append(&header, host.ptr, host.len);
  if (number != usual) nf_buffer_append_format(&header, ":%u", number);
  nf_buffer_append_char(&header, 0);
  endpoint->host = header.data;
  if (host.ptr[0] == '[') host = (nf_text){host.ptr + 1, host.len > 2 ? host.len - 2 : 0};
  return set_address(endpoint, tls ? NF_ENDPOINT_HTTPS : NF_ENDPOINT_HTTP, host) && !header.failed;
}

static bool set_path(nf_endpoint *endpoint, nf_text path, const char *more) {
  if (path.len && path.ptr[path.len - 1] == '/') path.len--;
  nf_buffer whole = {0};
  nf_buffer_append(&whole, path.ptr, path.len);
  nf_buffer_append_text(&whole, more);
  nf_buffer_append_char(&whole, 0);
  endpoint->path = whole.data;
  return !whole.failed;
}

static bool begins_with(nf_text text, const char *prefix) {
  size_t len = strlen(prefix);
  return text.len >= len && memcmp(text.ptr, prefix, len) == 0;
}

static nf_text without(nf_text text, size_t len) { return (nf_text){text.ptr + len, text.len - len}; }

static bool init_unix(nf_endpoint *endpoint, nf_text path, nf_error *error) {
  if (path.len == 0) return nf_error_set(error, "empty string");
  if (memchr(path.ptr, 0, path.len)) return nf_error_set(error, "the socket's path contains a NUL byte");
  nf_buffer hex = {0};
  for (size_t i = 0; i < path.len; i++) nf_buffer_append_format(&hex, "%02x", (unsigned char)path.ptr[i]);
  nf_buffer_append_char(&hex, 0);
  endpoint->host = hex.data;
  bool ok = set_address(endpoint, NF_ENDPOINT_UNIX, path) && set_path(endpoint, (nf_text){0}, AGENT_PATH) &&
            !hex.failed;
  return ok || nf_error_set_no_memory(error);
}

static int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* file:///folder or file://localhost/folder; %20 and the like are decoded. */
static bool init_folder(nf_endpoint *endpoint, nf_text rest, nf_error *error) {
  if (begins_with(rest, "localhost/")) rest = without(rest, 9);
  if (rest.len == 0 || rest.ptr[0] != '/') return nf_error_set(error, "invalid format");
  nf_buffer path = {0};
  for (size_t i = 0; i < rest.len; i++) {
    char c = rest.ptr[i];
    if (c == '%') {
      int high = i + 2 < rest.len ? hex_value(rest.ptr[i + 1]) : -1,
          low = high < 0 ? -1 : hex_value(rest.ptr[i + 2]);
      if (low < 0) {
        nf_buffer_deinit(&path);
        return nf_error_set(error, "invalid uri character");
      }
      c = (char)(high << 4 | low);
      i += 2;
    }
    if (c == 0) {
      nf_buffer_deinit(&path);
      return nf_error_set(error, "invalid uri character");
    }
    nf_buffer_append_char(&path, c);
  }
  while (path.len > 1 && path.data[path.len - 1] == '/') path.len--;
  bool ok = !path.failed && set_address(endpoint, NF_ENDPOINT_FOLDER, (nf_text){path.data, path.len}) &&
            set_path(endpoint, (nf_text){0}, AGENT_PATH);
  nf_buffer_deinit(&path);
  return ok || nf_error_set_no_memory(error);
}

static bool init_url(nf_endpoint *endpoint, nf_text text, nf_error *error) {
  url parts;
  if (!parse(text, &parts, error)) return false;
  bool ok;
  if (!parts.absolute) {
    ok = set_reason(endpoint, "client requires absolute-form URIs", (nf_text){0}, "", (nf_text){0});
  } else if (nf_text_equal_ignoring_case(parts.scheme, nf_text_of("http")) ||
             nf_text_equal_ignoring_case(parts.scheme, nf_text_of("https"))) {
    ok = set_host(endpoint, parts.authority, parts.scheme.len == 5);
  } else if (nf_text_equal_ignoring_case(parts.scheme, nf_text_of("windows"))) {
    ok = set_reason(
        endpoint, "error trying to connect: windows named pipes unsupported: windows named pipes unsupported",
        (nf_text){0}, "", (nf_text){0});
  } else {
    ok = set_reason(endpoint, "error trying to connect: Unsupported scheme ", parts.scheme,
                    ": Unsupported scheme ", parts.scheme);
  }
  ok = ok && set_path(endpoint, parts.path, AGENT_PATH);
  return ok || nf_error_set_no_memory(error);
}

bool nf_endpoint_init_agent(nf_endpoint *endpoint, nf_text text, nf_error *error) {
  *endpoint = (nf_endpoint){0};
  bool ok = begins_with(text, "unix://")   ? init_unix(endpoint, without(text, 7), error)
            : begins_with(text, "file://") ? init_folder(endpoint, without(text, 7), error)
                                           : init_url(endpoint, text, error);
  if (!ok) nf_endpoint_deinit(endpoint);
  return ok;
}

bool nf_endpoint_init_agentless(nf_endpoint *endpoint, nf_text site, nf_text api_key, nf_error *error) {
  *endpoint = (nf_endpoint){0};
  if (!nf_text_check_utf8(site, error) || !nf_text_check_utf8(api_key, error)) return false;
  nf_buffer text = {0};
  nf_buffer_append_text(&text, "https://intake.profile.");
  nf_buffer_append(&text, site.ptr, site.len);
  nf_buffer_append_text(&text, "/api/v2/profile");
  url parts;
  bool ok =
      text.failed ? nf_error_set_no_memory(error) : parse((nf_text){text.data, text.len}, &parts, error);
  if (ok && memchr(api_key.ptr ? api_key.ptr : "", 0, api_key.len))
    ok = nf_error_set(error, "failed to parse header value");
  if (ok) {
    endpoint->agentless = true;
    endpoint->api_key = nf_text_copy(api_key);
    ok = (endpoint->api_key && set_host(endpoint, parts.authority, true) &&
          set_path(endpoint, parts.path, "")) ||
         nf_error_set_no_memory(error);
  }
  nf_buffer_deinit(&text);
  if (!ok) nf_endpoint_deinit(endpoint);
  return ok;
}

bool nf_endpoint_copy(nf_endpoint *endpoint, const nf_endpoint *from, nf_error *error) {
  *endpoint = (nf_endpoint){.kind = from->kind, .agentless = from->agentless, .port = from->port};
  if (set_address(endpoint, from->kind, (nf_text){from->address, from->address_len}) &&
      nf_text_copy_string(&endpoint->host, from->host) &&
      nf_text_copy_string(&endpoint->path, from->path) &&
      nf_text_copy_string(&endpoint->api_key, from->api_key))
    return true;
  nf_endpoint_deinit(endpoint);
  return nf_error_set_no_memory(error);
}

void nf_endpoint_deinit(nf_endpoint *endpoint) {
  char *parts[] = {endpoint->host, endpoint->path, endpoint->api_key};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (parts[i]) explicit_bzero(parts[i], strlen(parts[i]));
    free(parts[i]);
  }
  free(endpoint->address);
  *endpoint = (nf_endpoint){0};
}

bool nf_endpoint_check_url(nf_text text, nf_error *error) {
  url parts;
  return parse(text, &parts, error);
}
