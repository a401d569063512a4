#define _GNU_SOURCE
#include "exporter/delivery.h"

#include "exporter/exporter.h"
#include "exporter/spool.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WAITED = 32 };
static const int64_t NS_PER_MS = 1000000, NS_PER_S = 1000000000;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int64_t deadline_after(uint64_t ms) {
  int64_t begin = now();
  if (ms == 0 || ms > (uint64_t)((INT64_MAX - begin) / NS_PER_MS)) return INT64_MAX;
  return begin + (int64_t)ms * NS_PER_MS;
}

bool nf_delivery_check(nf_delivery *delivery) {
  if (nf_token_is_cancelled(delivery->token))
    return nf_error_set(delivery->error, "operation cancelled by user");
  if (delivery->deadline != INT64_MAX && now() >= delivery->deadline)
    return nf_error_set(delivery->error, "operation timed out");
  return true;
}

int nf_delivery_milliseconds_left(const nf_delivery *delivery) {
  if (delivery->deadline == INT64_MAX) return INT_MAX;
  int64_t left = (delivery->deadline - now() + NS_PER_MS - 1) / NS_PER_MS;
  return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

bool nf_delivery_wait(nf_delivery *delivery, struct pollfd *descriptors, size_t count, int64_t most) {
  struct pollfd all[MAX_WAITED + 1];
  if (count > MAX_WAITED) count = MAX_WAITED;
  for (size_t i = 0; i < count; i++) all[i] = descriptors[i];
  size_t waited = count;
  if (delivery->attached) all[waited++] = (struct pollfd){.fd = delivery->waiter.wake, .events = POLLIN};
  int64_t until = most < 0 || most > INT64_MAX / 2 / NS_PER_MS ? INT64_MAX : now() + most * NS_PER_MS;
  for (;;) {
    if (!nf_delivery_check(delivery)) return false;
    int64_t end = until < delivery->deadline ? until : delivery->deadline;
    int64_t left = end == INT64_MAX ? -1 : end - now();
    if (end != INT64_MAX && left < 0) left = 0;
    struct timespec time = {left / NS_PER_S, left % NS_PER_S};
    int ready = ppoll(all, waited, left < 0 ? NULL : &time, NULL);
    if (ready < 0 && errno != EINTR && errno != EAGAIN) {
      nf_buffer why = {0};
      nf_text_append_errno(&why, errno);
      nf_error_set(delivery->error, "waiting for the connection failed: %.*s", (int)why.len,
                   why.data ? why.data : "");
      nf_buffer_deinit(&why);
      return false;
    }
    if (ready > 0 && !(delivery->attached && all[count].revents && ready == 1)) break;
    if (ready == 0 && until != INT64_MAX && now() >= until) break;
  }
  for (size_t i = 0; i < count; i++) descriptors[i].revents = all[i].revents;
  return nf_delivery_check(delivery);
}

int nf_delivery_open_socket(nf_delivery *delivery, int family, int type, int protocol) {
  nf_fork_guard_enter();
  return nf_flight_opened(&delivery->flight, socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
}

void nf_delivery_close_socket(nf_delivery *delivery, int descriptor) {
  nf_fork_guard_enter();
  nf_flight_close_descriptor(&delivery->flight, descriptor);
  nf_fork_guard_leave();
}

static void release(nf_delivery *delivery) {
  if (delivery->attached) nf_token_detach(delivery->token, &delivery->waiter);
  nf_token_drop(delivery->token);
  nf_request_drop(delivery->request);
  free(delivery);
}

/* In a fork's child: the descriptors are closed already, and the thread that was sending does not exist
 * here. */
static void abandon(nf_flight *flight) {
  nf_delivery *delivery = (nf_delivery *)flight;
  nf_resolve_abandon(delivery);
  nf_tls_abandon(delivery);
  release(delivery);
}

static bool begin(nf_delivery *delivery) {
  bool ok = true;
  nf_fork_guard_enter();
  delivery->flight.abandon = abandon;
  nf_flight_begin(&delivery->flight);
  if (delivery->token) {
    delivery->waiter.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ok = delivery->waiter.wake >= 0;
    if (ok) {
      nf_flight_add_descriptor(&delivery->flight, delivery->waiter.wake);
      nf_token_attach(delivery->token, &delivery->waiter);
      delivery->attached = true;
    } else {
      nf_buffer why = {0};
      nf_text_append_errno(&why, errno);
      nf_error_set(delivery->error, "%.*s", (int)why.len, why.data ? why.data : "");
      nf_buffer_deinit(&why);
    }
  }
  nf_fork_guard_leave();
  return ok;
}

static void end(nf_delivery *delivery) {
  nf_tls_close(delivery);
  nf_fork_guard_enter();
  if (delivery->attached) nf_token_detach(delivery->token, &delivery->waiter);
  delivery->attached = false;
  while (delivery->flight.descriptor_count)
    nf_flight_close_descriptor(&delivery->flight, delivery->flight.descriptors[0]);
  nf_flight_end(&delivery->flight);
  nf_fork_guard_leave();
  release(delivery);
}

static bool deliver(nf_delivery *delivery, unsigned *status) {
  const nf_request *request = delivery->request;
  const nf_endpoint *to = &request->endpoint;
  if (!nf_delivery_check(delivery)) return false;
  switch (to->kind) {
  case NF_ENDPOINT_HTTP:
    if (!nf_delivery_connect_tcp(delivery, to->address, to->port)) return false;
    break;
  case NF_ENDPOINT_HTTPS:
    if (!nf_delivery_connect_tls(delivery, to, &request->tls)) return false;
    break;
  case NF_ENDPOINT_UNIX:
    if (!nf_delivery_connect_unix(delivery, to->address, to->address_len)) return false;
    break;
  case NF_ENDPOINT_FOLDER:
    return nf_spool_write(to->address, request, &delivery->flight, status, delivery->error);
  case NF_ENDPOINT_UNREACHABLE:
    return nf_error_set(delivery->error, "%.*s", (int)to->address_len, to->address);
  }
  return nf_delivery_exchange(delivery, status);
}

bool nf_exporter_send(nf_request *request, nf_token *token, unsigned *status, nf_error *error) {
  if (!nf_fork_guard_prepare()) {
    nf_request_drop(request);
    return nf_error_set_no_memory(error);
  }
  nf_delivery *delivery = nf_zeroed(1, sizeof *delivery);
  if (!delivery) {
    nf_request_drop(request);
    return nf_error_set_no_memory(error);
  }
  delivery->request = request;
  delivery->token = token ? nf_token_acquire(token) : NULL;
  delivery->socket = -1;
  delivery->error = error;
  delivery->deadline = deadline_after(request->timeout_ms);
  bool ok = begin(delivery) && deliver(delivery, status);
  end(delivery);
  return ok;
}
