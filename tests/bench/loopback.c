#define _GNU_SOURCE
#include "tests/bench/loopback.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/measure.h"

/* The end of a request: `want` bytes, or the last chunk. */
typedef struct request {
  char head[16384], tail[8];
  long head_len, received, want; /* want < 0: not known */
  bool chunked;
} request;

static void look_at_head(request *r, const char *bytes, long n) {
  if (r->want >= 0 || r->chunked) return;
  long room = (long)sizeof r->head - 1 - r->head_len, take = n < room ? n : room;
  memcpy(r->head + r->head_len, bytes, (size_t)take);
  r->head_len += take;
  char *end = strstr(r->head, "\r\n\r\n"), *length = strcasestr(r->head, "content-length:");
  if (end && length && length < end)
    r->want = end + 4 - r->head + atol(length + 15);
  else if (end)
    r->chunked = true;
}

static bool complete(request *r, const char *bytes, long n) {
  r->received += n;
  look_at_head(r, bytes, n);
  long keep = 7 - n > 0 ? 7 - n : 0;
  memmove(r->tail, r->tail + 7 - keep, (size_t)keep);
  memcpy(r->tail + keep, bytes + n - (7 - keep), (size_t)(7 - keep));
  return r->want >= 0 ? r->received >= r->want : r->chunked && !memcmp(r->tail, "\r\n0\r\n\r\n", 7);
}

static void serve(const loopback *server, pid_t client) {
  static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
  static char buffer[1 << 16];
  static request r;
  for (int s; (s = accept(server->listener, NULL, NULL)) >= 0; close(s)) {
    r = (request){.want = -1};
    ssize_t n;
    while ((n = read(s, buffer, sizeof buffer)) > 0 && !complete(&r, buffer, n)) continue;
    server->seen->threads = (int)process_status_of(client, "Threads:");
    server->seen->bytes = r.received;
    if (send(s, answer, sizeof answer - 1, MSG_NOSIGNAL) < 0) continue;
  }
  _exit(0);
}

loopback loopback_start(void) {
  loopback server = {.listener = socket(AF_INET, SOCK_STREAM, 0)};
  server.seen = mmap(NULL, sizeof *server.seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (server.seen == MAP_FAILED) DIE("mmap: %s", strerror(errno));
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof address;
  if (bind(server.listener, (struct sockaddr *)&address, len) || listen(server.listener, 8) ||
      getsockname(server.listener, (struct sockaddr *)&address, &len))
    DIE("listen: %s", strerror(errno));
  server.port = ntohs(address.sin_port);
  pid_t client = getpid();
  if ((server.pid = fork()) == 0) serve(&server, client);
  if (server.pid < 0) DIE("fork: %s", strerror(errno));
  return server;
}

void loopback_stop(loopback *server) {
  close(server->listener);
  kill(server->pid, SIGKILL);
  waitpid(server->pid, NULL, 0);
  munmap((void *)server->seen, sizeof *server->seen);
}
