/* Connections with TLS, and through a proxy: libcurl's work, up to the point where bytes can be exchanged.
 *
 * libcurl is loaded for the first exporter with such a destination, not before: it brings some 30 libraries
 * (5 ms, 6 MB) that a process which talks to an agent in plain HTTP never needs. With NF_LINKED_LIBCURL it is
 * part of what this is linked into (tools/static-libcurl). Each report has its own
 * handles. libcurl never sees the request, so that nothing of it, the API key least of all, stays behind in a
 * buffer that is not ours. */
#include "exporter/delivery.h"
#include "exporter/roots.h"
#include "exporter/wakeup.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CURL_FUNCTIONS(X)                                                                                    \
  X(curl_global_init)                                                                                        \
  X(curl_easy_init)                                                                                          \
  X(curl_easy_setopt)                                                                                        \
  X(curl_easy_cleanup)                                                                                       \
  X(curl_easy_getinfo)                                                                                       \
  X(curl_easy_send)                                                                                          \
  X(curl_easy_recv)                                                                                          \
  X(curl_easy_strerror)                                                                                      \
  X(curl_multi_init)                                                                                         \
  X(curl_multi_add_handle)                                                                                   \
  X(curl_multi_remove_handle)                                                                                \
  X(curl_multi_perform)                                                                                      \
  X(curl_multi_poll)                                                                                         \
  X(curl_multi_info_read)                                                                                    \
  X(curl_multi_cleanup)                                                                                      \
  X(curl_slist_append)                                                                                       \
  X(curl_slist_free_all) X(curl_url) X(curl_url_set) X(curl_url_get) X(curl_url_cleanup) X(curl_free)

/* The headers' type-checking macros would get in the way of the table. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

static struct {
#define MEMBER(f) __typeof__(&f) f;
  CURL_FUNCTIONS(MEMBER)
} api;

/* The process may use the same libcrypto, which wants its queue of errors empty before some calls: what a
 * failed handshake of ours leaves there is taken away again. NULL if libcurl is built with something else. */
static int (*set_error_mark)(void);
static int (*pop_to_error_mark)(void);

/* NULL before 7.68; then there is no pair of sockets for it either. */
static CURLMcode (*multi_wakeup)(CURLM *);

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER; /* only ever held inside the fork guard */
static bool loaded;

struct nf_tls {
  CURL *easy;
  CURLM *multi;
  struct curl_slist *addresses;
  const char *roots_name; /* borrowed: the file of authorities */
  nf_buffer roots;        /* and its content, as long as libcurl may look into it */
  int wakeup[2];          /* by which libcurl wakes itself, where these could be found; else -1 */
  char why[CURL_ERROR_SIZE];
};

#ifdef NF_LINKED_LIBCURL
/* Of the OpenSSL that it is linked with; of another TLS library it would be none. */
__attribute__((weak)) int ERR_set_mark(void);
__attribute__((weak)) int ERR_pop_to_mark(void);

static bool find_libcurl(nf_error *error) {
  (void)error;
#define TAKE(f) api.f = f;
  CURL_FUNCTIONS(TAKE)
  multi_wakeup = curl_multi_wakeup;
  set_error_mark = ERR_set_mark;
  pop_to_error_mark = ERR_pop_to_mark;
  return true;
}
#else
static bool load_symbols(void *library) {
  bool all = true;
/* That a function's address fits into a void * is POSIX's promise, not the language's. */
#define SYMBOL(type, name) __extension__(type) dlsym(library, name)
#define LOAD(f) all = (api.f = SYMBOL(__typeof__(&f), #f)) && all;
  CURL_FUNCTIONS(LOAD)
  multi_wakeup = SYMBOL(__typeof__(multi_wakeup), "curl_multi_wakeup");
  set_error_mark = SYMBOL(__typeof__(set_error_mark), "ERR_set_mark"); /* in what libcurl depends on */
  pop_to_error_mark = SYMBOL(__typeof__(pop_to_error_mark), "ERR_pop_to_mark");
  if (!pop_to_error_mark) set_error_mark = NULL;
  return all;
}

static bool find_libcurl(nf_error *error) {
  static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
  void *library = NULL;
  bool ok = true;
  for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++) {
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library && i == 0) {
      const char *why = dlerror();
      nf_error_set(error, "error trying to connect: TLS needs libcurl, which cannot be loaded: %s",
                   why ? why : "unknown");
      ok = false;
    }
  }
  if (library && !ok) nf_error_deinit(error);
  return library &&
         (load_symbols(library) ||
          nf_error_set(error, "error trying to connect: TLS needs libcurl 7.66 or newer, this one is older"));
}
#endif

static bool load_once(nf_error *error) {
  bool ok = true;
  pthread_mutex_lock(&load_lock);
  if (!loaded) {
    ok = find_libcurl(error);
    if (ok && api.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
      ok = nf_error_set(error, "error trying to connect: libcurl cannot be initialised");
    loaded = ok;
  }
  pthread_mutex_unlock(&load_lock);
  return ok;
}

bool nf_tls_load(nf_error *error) {
  nf_fork_guard_enter();
  bool ok = load_once(error);
  nf_fork_guard_leave();
  return ok;
}

/* Guard of every call into libcurl: no fork meanwhile; and, should some version of it write to a broken
 * pipe, no SIGPIPE for the process either, without touching what the process does about SIGPIPE. */
typedef struct section {
  sigset_t before;
  bool was_pending;
} section;

static void enter(section *s) {
  nf_fork_guard_enter();
  sigset_t pipe, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  s->was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe, &s->before);
  if (set_error_mark) set_error_mark();
}

static void leave(const section *s) {
  int number = errno;
  if (set_error_mark) pop_to_error_mark();
  if (!s->was_pending) {
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    const struct timespec no_time = {0, 0};
    if (sigismember(&pending, SIGPIPE) == 1) sigtimedwait(&pipe, NULL, &no_time);
  }
  pthread_sigmask(SIG_SETMASK, &s->before, NULL);
  nf_fork_guard_leave();
  errno = number;
}

static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address) {
  (void)purpose;
  int descriptor = nf_delivery_open_socket(context, address->family, address->socktype, address->protocol);
  return descriptor < 0 ? CURL_SOCKET_BAD : descriptor;
}

static int close_socket(void *context, curl_socket_t descriptor) {
  nf_delivery_close_socket(context, descriptor);
  return 0;
}

static bool out_of_memory(nf_delivery *delivery) { return nf_error_set_no_memory(delivery->error); }

/* libcurl gets the addresses of the name from us: its own resolver would use a thread that nothing can
 * stop. */
static bool give_addresses(nf_delivery *delivery, struct nf_tls *tls, const char *host, unsigned port) {
  if (nf_resolve_is_number(host)) return true;
  nf_addresses addresses;
  if (!nf_delivery_resolve(delivery, host, port, &addresses)) return false;
  nf_buffer entry = {0};
  nf_buffer_append_format(&entry, "%s:%u:", host, port);
  for (size_t i = 0; i < addresses.count; i++) {
    char text[64];
    const nf_address *a = &addresses.items[i];
    bool v6 = a->name.any.sa_family == AF_INET6;
    const void *bytes = v6 ? (const void *)&a->name.v6.sin6_addr : (const void *)&a->name.v4.sin_addr;
    const unsigned char *b = bytes;
    if (v6) {
      int len = 0;
      for (int k = 0; k < 16; k += 2)
        len += snprintf(text + len, sizeof text - (size_t)len, "%s%x", k ? ":" : "", b[k] << 8 | b[k + 1]);
    } else {
      snprintf(text, sizeof text, "%u.%u.%u.%u", b[0], b[1], b[2], b[3]);
    }
    nf_buffer_append_format(&entry, i ? ",%s%s%s" : "%s%s%s", v6 ? "[" : "", text, v6 ? "]" : "");
  }
  nf_buffer_append_char(&entry, 0);
  struct curl_slist *list = entry.failed ? NULL : api.curl_slist_append(tls->addresses, entry.data);
  nf_buffer_deinit(&entry);
  if (!list) return out_of_memory(delivery);
  tls->addresses = list;
  return true;
}

/* Host and port of the proxy, so that its name can be looked up. */
static bool resolve_proxy(nf_delivery *delivery, struct nf_tls *tls, const char *proxy) {
  CURLU *url = api.curl_url();
  if (!url) return out_of_memory(delivery);
  char *scheme = NULL, *host = NULL, *port = NULL;
  bool ok =
      api.curl_url_set(url, CURLUPART_URL, proxy,
                       strstr(proxy, "://") ? CURLU_NON_SUPPORT_SCHEME : CURLU_GUESS_SCHEME) == CURLUE_OK &&
      api.curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
      api.curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK;
  if (ok) api.curl_url_get(url, CURLUPART_PORT, &port, 0);
  if (!ok) {
    nf_error_set(delivery->error, "error trying to connect: the proxy of HTTPS_PROXY is not a URL");
  } else if (strncmp(proxy, "http", 4) != 0 && strstr(proxy, "://")) {
    ok = nf_error_set(delivery->error, "error trying to connect: a proxy of kind %s:// is not supported",
                      scheme);
  } else {
    bool secure = strcmp(scheme, "https") == 0; /* libcurl's own default ports */
    unsigned number = port ? (unsigned)atoi(port) : secure ? 443 : 1080;
    size_t len = strlen(host);
    if (len > 1 && host[0] == '[' && host[len - 1] == ']')
      ok = true;
    else
      ok = give_addresses(delivery, tls, host, number);
  }
  api.curl_free(scheme);
  api.curl_free(host);
  api.curl_free(port);
  api.curl_url_cleanup(url);
  return ok;
}

/* Libraries before 7.77, and those with another TLS than OpenSSL's for longer, take only the file's name. */
static CURLcode set_roots(struct nf_tls *tls, bool of_proxy) {
  const char *name = tls->roots_name;
#if LIBCURL_VERSION_NUM >= 0x074D00
  struct curl_blob content = {.data = tls->roots.data, .len = tls->roots.len, .flags = CURL_BLOB_NOCOPY};
  CURLoption by_content = of_proxy ? CURLOPT_PROXY_CAINFO_BLOB : CURLOPT_CAINFO_BLOB;
  CURLcode bad = api.curl_easy_setopt(tls->easy, by_content, &content);
  if (bad == CURLE_OK) name = NULL; /* instead of the one that libcurl is built with, too */
  if (bad != CURLE_OK && bad != CURLE_UNKNOWN_OPTION && bad != CURLE_NOT_BUILT_IN) return bad;
#endif
  return api.curl_easy_setopt(tls->easy, of_proxy ? CURLOPT_PROXY_CAINFO : CURLOPT_CAINFO, name);
}

static bool configure(nf_delivery *delivery, struct nf_tls *tls, const nf_endpoint *endpoint,
                      const nf_tls_settings *settings) {
  CURL *easy = tls->easy;
  CURLcode bad = CURLE_OK;
#define SET(option, value)                                                                                   \
  if (bad == CURLE_OK) bad = api.curl_easy_setopt(easy, option, value)
  char url[512];
  bool v6 = strchr(endpoint->address, ':') != NULL;
  int len = snprintf(url, sizeof url, "https://%s%s%s:%u/", v6 ? "[" : "", endpoint->address, v6 ? "]" : "",
                     endpoint->port);
  if (len < 0 || (size_t)len >= sizeof url)
    return nf_error_set(delivery->error, "error trying to connect: the host name is too long");
  tls->roots_name = settings->ca_file ? settings->ca_file : nf_roots_find();
  if (!tls->roots_name)
    return nf_error_set(delivery->error,
                        "error trying to connect: no file of CA certificates was found in the usual "
                        "places (SSL_CERT_FILE can name one)");
  if (!nf_roots_read(tls->roots_name, &delivery->flight, &tls->roots, delivery->error)) return false;
  SET(CURLOPT_ERRORBUFFER, tls->why);
  SET(CURLOPT_URL, url);
  SET(CURLOPT_CONNECT_ONLY, 1L);
  SET(CURLOPT_NOSIGNAL, 1L);
  SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  SET(CURLOPT_SSL_ENABLE_ALPN, 0L);
  SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
  SET(CURLOPT_SSL_VERIFYPEER, 1L);
  SET(CURLOPT_SSL_VERIFYHOST, 2L);
  SET(CURLOPT_SSL_SESSIONID_CACHE, 0L);
  if (bad == CURLE_OK) bad = set_roots(tls, false);
  SET(CURLOPT_CAPATH, NULL);
  SET(CURLOPT_FRESH_CONNECT, 1L);
  SET(CURLOPT_CONNECTTIMEOUT_MS, 0x7FFFFFFFL); /* the limit is the report's own */
  SET(CURLOPT_TCP_NODELAY, 1L);
  SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
  SET(CURLOPT_OPENSOCKETDATA, delivery);
  SET(CURLOPT_CLOSESOCKETFUNCTION, close_socket);
  SET(CURLOPT_CLOSESOCKETDATA, delivery);
  SET(CURLOPT_PROXY, settings->proxy ? settings->proxy : "");
  SET(CURLOPT_NOPROXY, ""); /* decided already; and libcurl must not look at the environment */
  if (settings->proxy) {
    if (bad == CURLE_OK) bad = set_roots(tls, true);
    SET(CURLOPT_PROXY_CAPATH, NULL);
    SET(CURLOPT_HTTPPROXYTUNNEL, 1L);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  }
  if (tls->addresses) SET(CURLOPT_RESOLVE, tls->addresses);
#undef SET
  if (bad == CURLE_OUT_OF_MEMORY) return out_of_memory(delivery);
  if (bad != CURLE_OK)
    return nf_error_set(delivery->error, "error trying to connect: libcurl: %s", api.curl_easy_strerror(bad));
  return true;
}

static void wake(void *multi) { multi_wakeup(multi); }

static void calm(void *multi) {
  int ready;
  api.curl_multi_poll(multi, NULL, 0, 0, &ready);
}

/* curl_multi_init; what it opens is neither inherited by programs nor left open in children. By one thread at
 * a time, for two pairs could not be told apart; in the fork guard, so that no child finds it locked. */
static CURLM *make_multi(nf_delivery *delivery) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  struct nf_tls *tls = delivery->tls;
  pthread_mutex_lock(&lock);
  int lowest = nf_wakeup_lowest();
  CURLM *multi = api.curl_multi_init();
  int pair[2];
  bool found = multi && multi_wakeup && nf_wakeup_find(lowest, wake, calm, multi, pair);
  for (int i = 0; i < 2; i++) {
    tls->wakeup[i] = found ? pair[i] : -1;
    if (!found) continue;
    fcntl(pair[i], F_SETFD, FD_CLOEXEC);
    nf_flight_add_descriptor(&delivery->flight, pair[i]);
  }
  pthread_mutex_unlock(&lock);
  return multi;
}

static bool make_handles(nf_delivery *delivery, const nf_endpoint *endpoint,
                         const nf_tls_settings *settings) {
  struct nf_tls *tls = delivery->tls;
  section s;
  enter(&s);
  tls->easy = api.curl_easy_init();
  tls->multi = make_multi(delivery);
  bool ok = (tls->easy && tls->multi) || out_of_memory(delivery);
  ok = ok && configure(delivery, tls, endpoint, settings);
  if (ok) {
    CURLMcode bad = api.curl_multi_add_handle(tls->multi, tls->easy);
    if (bad != CURLM_OK)
      ok = bad == CURLM_OUT_OF_MEMORY
               ? out_of_memory(delivery)
               : nf_error_set(delivery->error, "error trying to connect: libcurl failed");
  }
  leave(&s);
  return ok;
}

static const char *reason(const struct nf_tls *tls, CURLcode result) {
  return tls->why[0] ? tls->why : api.curl_easy_strerror(result);
}

/* One step of the connection; *done when it is there. */
static bool step(nf_delivery *delivery, bool *done) {
  struct nf_tls *tls = delivery->tls;
  section s;
  enter(&s);
  int running = 0, queued;
  CURLMcode bad = api.curl_multi_perform(tls->multi, &running);
  CURLMsg *message = bad == CURLM_OK ? api.curl_multi_info_read(tls->multi, &queued) : NULL;
  bool ok = bad == CURLM_OK ||
            nf_error_set(delivery->error, "error trying to connect: libcurl failed (%d)", (int)bad);
  if (message && message->msg == CURLMSG_DONE) {
    CURLcode result = message->data.result;
    *done = true;
    if (result == CURLE_OUT_OF_MEMORY)
      ok = out_of_memory(delivery);
    else if (result == CURLE_SSL_CACERT_BADFILE)
      ok = nf_error_set(delivery->error, "error trying to connect: the file of CA certificates %s: %s",
                        tls->roots_name, reason(tls, result));
    else if (result != CURLE_OK)
      ok = nf_error_set(delivery->error, "error trying to connect: %s", reason(tls, result));
  }
  leave(&s);
  return ok;
}

static bool wait_for_libcurl(nf_delivery *delivery) {
  /* libcurl knows its descriptors and its timers; the token's wake-up and the time left are ours. */
  struct curl_waitfd wake = {.fd = delivery->waiter.wake, .events = CURL_WAIT_POLLIN};
  if (!nf_delivery_check(delivery)) return false;
  int ready;
  api.curl_multi_poll(delivery->tls->multi, &wake, delivery->attached ? 1 : 0,
                      nf_delivery_milliseconds_left(delivery), &ready);
  return nf_delivery_check(delivery);
}

bool nf_delivery_connect_tls(nf_delivery *delivery, const nf_endpoint *endpoint,
                             const nf_tls_settings *settings) {
  if (!nf_tls_load(delivery->error)) return false;
  struct nf_tls *tls = delivery->tls = calloc(1, sizeof *tls);
  if (!tls) return out_of_memory(delivery);
  bool ok = settings->proxy ? resolve_proxy(delivery, tls, settings->proxy)
                            : give_addresses(delivery, tls, endpoint->address, endpoint->port);
  if (!ok || !make_handles(delivery, endpoint, settings)) return false;
  for (bool done = false;;) {
    if (!step(delivery, &done)) return false;
    if (done) break;
    if (!wait_for_libcurl(delivery)) return false;
  }
  section s;
  enter(&s);
  curl_socket_t descriptor = CURL_SOCKET_BAD;
  CURLcode bad = api.curl_easy_getinfo(tls->easy, CURLINFO_ACTIVESOCKET, &descriptor);
  leave(&s);
  if (bad != CURLE_OK || descriptor == CURL_SOCKET_BAD)
    return nf_error_set(delivery->error, "connection closed before message completed");
  delivery->socket = descriptor;
  return true;
}

static ssize_t failure(CURLcode bad, struct nf_tls *tls) {
  long number = 0;
  api.curl_easy_getinfo(tls->easy, CURLINFO_OS_ERRNO, &number);
  errno = bad == CURLE_AGAIN           ? EAGAIN
          : bad == CURLE_OUT_OF_MEMORY ? ENOMEM
          : number && number != EAGAIN ? (int)number
                                       : ECONNRESET;
  return -1;
}

ssize_t nf_tls_send(nf_delivery *delivery, const void *data, size_t len) {
  section s;
  enter(&s);
  size_t sent = 0;
  CURLcode bad = api.curl_easy_send(delivery->tls->easy, data, len, &sent);
  ssize_t result = bad == CURLE_OK ? (ssize_t)sent : failure(bad, delivery->tls);
  leave(&s);
  return result;
}

ssize_t nf_tls_receive(nf_delivery *delivery, void *data, size_t len) {
  section s;
  enter(&s);
  size_t got = 0;
  CURLcode bad = api.curl_easy_recv(delivery->tls->easy, data, len, &got);
  ssize_t result = bad == CURLE_OK ? (ssize_t)got : failure(bad, delivery->tls);
  leave(&s);
  return result;
}

void nf_tls_close(nf_delivery *delivery) {
  struct nf_tls *tls = delivery->tls;
  if (!tls) return;
  section s;
  enter(&s);
  if (tls->multi && tls->easy) api.curl_multi_remove_handle(tls->multi, tls->easy);
  if (tls->easy) api.curl_easy_cleanup(tls->easy);
  if (tls->multi) {
    for (int i = 0; i < 2; i++) nf_flight_forget_descriptor(&delivery->flight, tls->wakeup[i]);
    api.curl_multi_cleanup(tls->multi);
  }
  if (tls->addresses) api.curl_slist_free_all(tls->addresses);
  leave(&s);
  nf_buffer_deinit(&tls->roots);
  explicit_bzero(tls, sizeof *tls);
  free(tls);
  delivery->tls = NULL;
  delivery->socket = -1;
}

void nf_tls_abandon(nf_delivery *delivery) {
  /* In the child of a fork. Other threads of the process may have been inside OpenSSL for purposes of
   * their own, so that calling into it here could wait for ever: libcurl's handles (some 100 kB) are left
   * alone. Their sockets are closed. */
  if (delivery->tls) nf_buffer_deinit(&delivery->tls->roots);
  free(delivery->tls);
  delivery->tls = NULL;
}
