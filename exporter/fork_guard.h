/* What makes a fork safe at any moment.
 *
 * A fork copies memory as it is at that instant, but only the thread that forks. Two things would be torn:
 * what another thread was changing just then (a lock held, a list half linked, OpenSSL's tables), and what
 * another thread was using (open sockets, buffers), which nobody in the child would ever release.
 *
 * Against the first: such changes happen between nf_fork_guard_enter and _leave, which are short and never
 * wait for the network, and a fork waits until no thread is inside. Against the second: a thread that
 * sends announces a flight, which knows its descriptors and how to release the rest; the child closes and
 * releases all of them before fork returns. */
#ifndef NF_EXPORTER_FORK_GUARD_H
#define NF_EXPORTER_FORK_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Once before anything else here; false when out of memory. Cheap when repeated. */
bool nf_fork_guard_prepare(void);

/* Nests. Nothing between the two may wait for anything but the processor and the disk. */
void nf_fork_guard_enter(void);
void nf_fork_guard_leave(void);

enum { NF_FLIGHT_DESCRIPTORS = 32 };

typedef struct nf_flight {
  struct nf_flight *next, *previous;
  int descriptors[NF_FLIGHT_DESCRIPTORS];
  size_t descriptor_count;
  /* In the child of a fork: releases what the flight owned, memory included; its descriptors are closed
   * already. */
  void (*abandon)(struct nf_flight *flight);
} nf_flight;

/* All of these inside the guard. */
void nf_flight_begin(nf_flight *flight);
void nf_flight_end(nf_flight *flight);
bool nf_flight_add_descriptor(nf_flight *flight, int descriptor);   /* false when there are too many */
void nf_flight_close_descriptor(nf_flight *flight, int descriptor); /* only if it is one of the flight's */
void nf_flight_forget_descriptor(nf_flight *flight, int descriptor);

/* For what was opened (or not: -1) after entering the guard: makes it one of the flight's, which may be
 * NULL, and leaves the guard. -1 with errno set if it was not opened, or the flight has too many. */
int nf_flight_opened(nf_flight *flight, int descriptor);

/* openat(), closed on exec, as one of the flight's (which may be NULL) from the start; these enter the
 * guard themselves. */
int nf_flight_open(nf_flight *flight, int folder, const char *path, int flags, unsigned mode);
int nf_flight_close(nf_flight *flight, int descriptor); /* close()'s result, errno with it */

#ifdef __cplusplus
}
#endif

#endif
