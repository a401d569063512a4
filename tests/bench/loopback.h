/* A server of its own process on 127.0.0.1 that answers every request with 200. */
#ifndef NF_BENCH_LOOPBACK_H
#define NF_BENCH_LOOPBACK_H

#include <sys/types.h>

typedef struct loopback {
  int listener, port;
  pid_t pid;
  /* Shared with the server, about the last request: */
  struct {
    volatile int threads; /* of the client, while it waited for the answer */
    volatile long bytes;
  } * seen;
} loopback;

loopback loopback_start(void);
void loopback_stop(loopback *server);

#endif
