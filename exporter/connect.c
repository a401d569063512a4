/* Plain connections: TCP, trying the addresses of a name one after the other without waiting long for any,
 * and unix sockets. */
#include "exporter/delivery.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

enum { NEXT_ADDRESS_MS = 250, BUSY_FIRST_MS = 1, BUSY_MOST_MS = 50 };

static bool connect_error(nf_delivery *delivery, const char *what, int number) {
  nf_buffer why = {0};
  nf_text_append_errno(&why, number);
  int len = (int)why.len;
  if (*what)
    nf_error_set(delivery->error, "error trying to connect: %s: %.*s: %s: %.*s: %.*s", what, len, why.data,
                 what, len, why.data, len, why.data);
  else
    nf_error_set(delivery->error, "error trying to connect: %.*s: %.*s", len, why.data, len, why.data);
  nf_buffer_deinit(&why);
  return false;
}

/* Starts one connection; its descriptor, or -1 and *number. */
static int start(nf_delivery *delivery, const nf_address *address, int *number, const char **what) {
  int descriptor = nf_delivery_open_socket(delivery, address->name.any.sa_family, SOCK_STREAM, IPPROTO_TCP);
  if (descriptor < 0) {
    *number = errno;
    *what = "tcp open error";
    return -1;
  }
  int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  int result = connect(descriptor, &address->name.any, address->len);
  if (result == 0 || errno == EINPROGRESS || errno == EINTR) return descriptor;
  *number = errno;
  *what = "tcp connect error";
  nf_delivery_close_socket(delivery, descriptor);
  return -1;
}

static int pending_error(int descriptor) {
  int number = 0;
  socklen_t len = sizeof number;
  return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &len) == 0 ? number : errno;
}

static bool race(nf_delivery *delivery, const nf_addresses *addresses) {
  struct pollfd open[NF_MAX_ADDRESSES];
  size_t count = 0, next = 0;
  int number = 0;
  const char *what = "";
  while (count > 0 || next < addresses->count) {
    if (next < addresses->count) {
      int descriptor = start(delivery, &addresses->items[next++], &number, &what);
      if (descriptor < 0) continue;
      open[count++] = (struct pollfd){.fd = descriptor, .events = POLLOUT};
    }
    bool failed_one = false;
    while (count > 0 && !failed_one) { /* until it is time for the next address */
      for (size_t i = 0; i < count; i++) open[i].revents = 0;
      if (!nf_delivery_wait(delivery, open, count, next < addresses->count ? NEXT_ADDRESS_MS : -1))
        return false;
      bool any = false;
      for (size_t i = 0; i < count; i++) {
        if (!open[i].revents) continue;
        any = true;
        int problem = pending_error(open[i].fd);
        if (problem == 0 && delivery->socket < 0) {
          delivery->socket = open[i].fd;
          continue;
        }
        if (problem) number = problem, what = "tcp connect error";
        nf_delivery_close_socket(delivery, open[i].fd);
        open[i--] = open[--count];
        failed_one = true;
      }
      if (delivery->socket >= 0) {
        for (size_t i = 0; i < count; i++)
          if (open[i].fd != delivery->socket) nf_delivery_close_socket(delivery, open[i].fd);
        return true;
      }
      if (!any) break;
    }
  }
  return connect_error(delivery, what, number);
}

bool nf_delivery_connect_tcp(nf_delivery *delivery, const char *host, unsigned port) {
  nf_addresses addresses;
  return nf_delivery_resolve(delivery, host, port, &addresses) && race(delivery, &addresses);
}

bool nf_delivery_connect_unix(nf_delivery *delivery, const char *path, size_t path_len) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  if (path_len >= sizeof name.sun_path) {
    return nf_error_set(
        delivery->error,
        "error trying to connect: the path of the unix socket has %zu bytes, the system allows %zu", path_len,
        sizeof name.sun_path - 1);
  }
  memcpy(name.sun_path, path, path_len);
  socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path_len + 1);
  int descriptor = nf_delivery_open_socket(delivery, AF_UNIX, SOCK_STREAM, 0);
  if (descriptor < 0) return connect_error(delivery, "", errno);
  /* With the server's queue full, the kernel says EAGAIN at once and there is nothing to poll for. */
  for (int64_t pause = BUSY_FIRST_MS; connect(descriptor, (struct sockaddr *)&name, len) != 0;) {
    if (errno != EAGAIN && errno != EINTR) return connect_error(delivery, "", errno);
    if (!nf_delivery_wait(delivery, NULL, 0, pause)) return false;
    if (pause < BUSY_MOST_MS) pause *= 2;
  }
  delivery->socket = descriptor;
  return true;
}
