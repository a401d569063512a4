/* Names to addresses with c-ares: on the calling thread, with a fresh channel for each report, so that the
 * time limit and the token end a lookup and a fork finds no resolver thread in the middle of one. */
#include "exporter/delivery.h"

/* Part of this library (see BUILD), so as hidden as the rest of it. */
#define CARES_STATICLIB
/* Newer releases advise against what older ones, which are to do as well, have instead. */
#define CARES_NO_DEPRECATED
#pragma GCC visibility push(hidden)
#include <ares.h>
#pragma GCC visibility pop

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

static bool parse_number(const char *host, unsigned port, nf_address *address) {
  memset(address, 0, sizeof *address);
  if (inet_pton(AF_INET6, host, &address->name.v6.sin6_addr) == 1) {
    address->name.v6.sin6_family = AF_INET6;
    address->name.v6.sin6_port = htons((uint16_t)port);
    address->len = sizeof address->name.v6;
    return true;
  }
  if (inet_aton(host, &address->name.v4.sin_addr) != 0) { /* also 127.1, as getaddrinfo has it */
    address->name.v4.sin_family = AF_INET;
    address->name.v4.sin_port = htons((uint16_t)port);
    address->len = sizeof address->name.v4;
    return true;
  }
  return false;
}

bool nf_resolve_is_number(const char *host) {
  nf_address address;
  return parse_number(host, 0, &address);
}

/* localhost and anything.localhost are this machine (RFC 6761), whether or not a hosts file says so. */
static bool is_localhost(const char *host) {
  size_t len = strlen(host);
  if (len && host[len - 1] == '.') len--;
  static const char name[] = "localhost";
  size_t name_len = sizeof name - 1;
  if (len < name_len || strncasecmp(host + len - name_len, name, name_len) != 0) return false;
  return len == name_len || host[len - name_len - 1] == '.';
}

static void on_result(void *context, int status, int timeouts, struct ares_addrinfo *result) {
  (void)timeouts;
  nf_lookup *l = context;
  l->done = true;
  l->status = status;
  l->result = result;
}

static ares_socket_t open_socket(int family, int type, int protocol, void *context) {
  int descriptor = nf_delivery_open_socket(context, family, type, protocol);
  int on = 1;
  if (descriptor >= 0 && type == SOCK_STREAM)
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return descriptor;
}

static int close_socket(ares_socket_t descriptor, void *context) {
  nf_delivery_close_socket(context, descriptor);
  return 0;
}

static int connect_socket(ares_socket_t descriptor, const struct sockaddr *to, ares_socklen_t len,
                          void *context) {
  (void)context;
  return connect(descriptor, to, len);
}

static ares_ssize_t receive(ares_socket_t descriptor, void *data, size_t len, int flags,
                            struct sockaddr *from, ares_socklen_t *from_len, void *context) {
  (void)context;
  return recvfrom(descriptor, data, len, flags, from, from_len);
}

static ares_ssize_t send_vector(ares_socket_t descriptor, const struct iovec *vector, int count,
                                void *context) {
  (void)context;
  struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)vector, .msg_iovlen = (size_t)count};
  return sendmsg(descriptor, &message, MSG_NOSIGNAL);
}

static const struct ares_socket_functions SOCKETS = {open_socket, close_socket, connect_socket, receive,
                                                     send_vector};

static bool dns_error(nf_delivery *delivery, int status) {
  const char *why = "Temporary failure in name resolution";
  switch (status) {
  case ARES_ENOMEM:
    return nf_error_set_no_memory(delivery->error);
  case ARES_ENOTFOUND:
  case ARES_ENODATA:
  case ARES_EBADNAME:
  case ARES_EBADQUERY:
    why = "Name or service not known";
    break;
  case ARES_EFILE:
    why = "System error: cannot read the resolver's files";
    break;
  default:
    break;
  }
  return nf_error_set(
      delivery->error,
      "error trying to connect: dns error: failed to lookup address information: %s: dns error: "
      "failed to lookup address information: %s: failed to lookup address information: %s",
      why, why, why);
}

/* One round: waits for c-ares' sockets and lets it work on what is ready. */
static bool step(nf_delivery *delivery, ares_channel channel) {
  ares_socket_t sockets[ARES_GETSOCK_MAXNUM];
  struct pollfd polled[ARES_GETSOCK_MAXNUM];
  /* Not with c-ares' macros, which shift a bit into the sign. */
  unsigned bits = (unsigned)ares_getsock(channel, sockets, ARES_GETSOCK_MAXNUM);
  size_t count = 0;
  for (int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
    short events = 0;
    if (bits >> i & 1) events |= POLLIN;
    if (bits >> (i + ARES_GETSOCK_MAXNUM) & 1) events |= POLLOUT;
    if (events) polled[count++] = (struct pollfd){.fd = sockets[i], .events = events};
  }
  struct timeval most = {0}, *left = ares_timeout(channel, NULL, &most);
  int64_t ms = left ? (int64_t)left->tv_sec * 1000 + left->tv_usec / 1000 + 1 : -1;
  if (count == 0 && ms < 0) ms = 1; /* c-ares is between two sockets */
  if (!nf_delivery_wait(delivery, polled, count, ms)) return false;
  nf_fork_guard_enter();
  bool any = false;
  for (size_t i = 0; i < count; i++) {
    if (!polled[i].revents) continue;
    any = true;
    bool readable = polled[i].revents & (POLLIN | POLLERR | POLLHUP), writable = polled[i].revents & POLLOUT;
    ares_process_fd(channel, readable ? polled[i].fd : ARES_SOCKET_BAD,
                    writable ? polled[i].fd : ARES_SOCKET_BAD);
  }
  if (!any) ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
  nf_fork_guard_leave();
  return true;
}

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static int library_status;
static void init_library(void) { library_status = ares_library_init(ARES_LIB_INIT_ALL); }

static bool look_up(nf_delivery *delivery, const char *host) {
  nf_lookup *l = &delivery->lookup;
  nf_fork_guard_enter();
  pthread_once(&library_once, init_library);
  int status = library_status;
  if (status == ARES_SUCCESS) status = ares_init(&l->channel);
  if (status == ARES_SUCCESS) {
    ares_set_socket_functions(l->channel, &SOCKETS, delivery);
    struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    ares_getaddrinfo(l->channel, host, NULL, &hints, on_result, l);
  } else {
    l->channel = NULL;
  }
  nf_fork_guard_leave();
  if (status != ARES_SUCCESS) return dns_error(delivery, status);
  while (!l->done) {
    if (!step(delivery, l->channel)) return false;
  }
  return l->status == ARES_SUCCESS || dns_error(delivery, l->status);
}

/* Ends a lookup that is still open; c-ares then calls on_result. */
static void end_lookup(nf_delivery *delivery) {
  nf_lookup *l = &delivery->lookup;
  nf_fork_guard_enter();
  if (l->channel) ares_destroy(l->channel);
  if (l->result) ares_freeaddrinfo(l->result);
  nf_fork_guard_leave();
  *l = (nf_lookup){0};
}

static void collect(const struct ares_addrinfo *result, unsigned port, nf_addresses *addresses) {
  for (const struct ares_addrinfo_node *node = result->nodes; node; node = node->ai_next) {
    nf_address *address = &addresses->items[addresses->count];
    if (addresses->count == NF_MAX_ADDRESSES || (size_t)node->ai_addrlen > sizeof address->name) continue;
    if (node->ai_family != AF_INET && node->ai_family != AF_INET6) continue;
    memcpy(&address->name, node->ai_addr, (size_t)node->ai_addrlen);
    address->len = (socklen_t)node->ai_addrlen;
    if (node->ai_family == AF_INET)
      address->name.v4.sin_port = htons((uint16_t)port);
    else
      address->name.v6.sin6_port = htons((uint16_t)port);
    addresses->count++;
  }
}

bool nf_delivery_resolve(nf_delivery *delivery, const char *host, unsigned port, nf_addresses *addresses) {
  addresses->count = 0;
  if (parse_number(host, port, &addresses->items[0])) {
    addresses->count = 1;
    return true;
  }
  if (is_localhost(host)) {
    parse_number("::1", port, &addresses->items[0]);
    parse_number("127.0.0.1", port, &addresses->items[1]);
    addresses->count = 2;
    return true;
  }
  bool ok = look_up(delivery, host);
  if (ok) collect(delivery->lookup.result, port, addresses);
  end_lookup(delivery);
  return ok && (addresses->count > 0 || dns_error(delivery, ARES_ENODATA));
}

void nf_resolve_abandon(nf_delivery *delivery) { end_lookup(delivery); }
