/* The state of one report on its way: its time limit, its token, its descriptors. Internal to the
 * exporter.
 *
 * Everything runs on the thread that sends. The only place where it waits is nf_delivery_wait, which both
 * the time limit and the token end. */
#ifndef NF_EXPORTER_DELIVERY_H
#define NF_EXPORTER_DELIVERY_H

#include "core/error.h"
#include "exporter/fork_guard.h"
#include "exporter/request.h"
#include "exporter/token.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A name being looked up. */
typedef struct nf_lookup {
  struct ares_channeldata *channel;
  struct ares_addrinfo *result;
  int status;
  bool done;
} nf_lookup;

typedef struct nf_delivery {
  nf_flight flight;    /* first: it is what a fork's child gets hold of */
  nf_request *request; /* owned */
  nf_token *token;     /* owned reference, or NULL */
  nf_token_waiter waiter;
  bool attached;
  int64_t deadline; /* CLOCK_MONOTONIC, nanoseconds; INT64_MAX: none */
  int socket;       /* the connected one, or -1; owned by `tls` if that is set */
  struct nf_tls *tls;
  nf_lookup lookup;
  nf_error *error;
} nf_delivery;

/* False after setting the error: time is up, cancelled, or no descriptor left. Otherwise some descriptor
 * is ready or `most` milliseconds (if not negative) have passed; the events say which. Interrupting
 * signals are no event. */
bool nf_delivery_wait(nf_delivery *delivery, struct pollfd *descriptors, size_t count, int64_t most);

/* Sets the error if time is up or the token set; false then. */
bool nf_delivery_check(nf_delivery *delivery);

/* For those who wait by themselves: until the time limit, at most INT_MAX. */
int nf_delivery_milliseconds_left(const nf_delivery *delivery);

/* socket(), non-blocking, closed on exec, announced to the fork guard; -1 with errno set. */
int nf_delivery_open_socket(nf_delivery *delivery, int family, int type, int protocol);
void nf_delivery_close_socket(nf_delivery *delivery, int descriptor);

/* ---- names (resolve.c) ---- */
enum { NF_MAX_ADDRESSES = 16 };
typedef struct nf_address {
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } name;
  socklen_t len;
} nf_address;
typedef struct nf_addresses {
  nf_address items[NF_MAX_ADDRESSES];
  size_t count;
} nf_addresses;

/* True if the host is written as a number, an address that needs no looking up. */
bool nf_resolve_is_number(const char *host);
/* Numbers, localhost, the hosts file, DNS. */
bool nf_delivery_resolve(nf_delivery *delivery, const char *host, unsigned port, nf_addresses *addresses);
void nf_resolve_abandon(nf_delivery *delivery);

/* ---- connections (connect.c): plain sockets ---- */
bool nf_delivery_connect_tcp(nf_delivery *delivery, const char *host, unsigned port);
bool nf_delivery_connect_unix(nf_delivery *delivery, const char *path, size_t path_len);

/* ---- TLS (tls.c): libcurl ---- */
/* Loads and prepares libcurl, once per process. Its libraries read the environment then, and not later. */
bool nf_tls_load(nf_error *error);
bool nf_delivery_connect_tls(nf_delivery *delivery, const nf_endpoint *endpoint,
                             const nf_tls_settings *settings);
ssize_t nf_tls_send(nf_delivery *delivery, const void *data, size_t len);
ssize_t nf_tls_receive(nf_delivery *delivery, void *data, size_t len);
void nf_tls_close(nf_delivery *delivery);
void nf_tls_abandon(nf_delivery *delivery);

/* ---- HTTP (http.c) ---- */
/* Writes the request, reads up to the end of the final response's headers. */
bool nf_delivery_exchange(nf_delivery *delivery, unsigned *status);

#ifdef __cplusplus
}
#endif

#endif
