#define _GNU_SOURCE
#include "exporter/fork_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

/* Writers (forks) first, where there is a choice: else a few busy senders could hold a fork off for ever. */
#ifdef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#define UNLOCKED PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#else
#define UNLOCKED PTHREAD_RWLOCK_INITIALIZER
#endif

static pthread_rwlock_t guard = UNLOCKED;
static _Thread_local unsigned depth;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* only ever held inside the guard */
static nf_flight *flights;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool ready;
static _Thread_local bool
    forking_inside; /* fork called by a thread that is inside itself, e.g. in a signal handler */

static void before_fork(void) {
  forking_inside = depth > 0;
  if (!forking_inside) pthread_rwlock_wrlock(&guard);
}

static void after_fork_in_parent(void) {
  if (!forking_inside) pthread_rwlock_unlock(&guard);
}

static void after_fork_in_child(void) {
  /* Unlocking alone would not do: threads of the parent that were waiting are still counted. */
  pthread_rwlock_t fresh = UNLOCKED;
  if (!forking_inside) pthread_rwlock_unlock(&guard);
  guard = fresh;
  if (forking_inside) { /* the state is this thread's own affair; it stays as it is */
    pthread_rwlock_rdlock(&guard);
    return;
  }
  nf_flight *left = flights;
  flights = NULL;
  while (left) {
    nf_flight *next = left->next;
    for (size_t i = 0; i < left->descriptor_count; i++) close(left->descriptors[i]);
    left->descriptor_count = 0;
    if (left->abandon) left->abandon(left);
    left = next;
  }
}

static void prepare(void) {
  ready = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

bool nf_fork_guard_prepare(void) {
  pthread_once(&once, prepare);
  return ready;
}

void nf_fork_guard_enter(void) {
  if (depth++ == 0) pthread_rwlock_rdlock(&guard);
}

void nf_fork_guard_leave(void) {
  if (--depth == 0) pthread_rwlock_unlock(&guard);
}

void nf_flight_begin(nf_flight *flight) {
  pthread_mutex_lock(&list_lock);
  flight->previous = NULL;
  flight->next = flights;
  if (flights) flights->previous = flight;
  flights = flight;
  pthread_mutex_unlock(&list_lock);
}

void nf_flight_end(nf_flight *flight) {
  pthread_mutex_lock(&list_lock);
  if (flight->previous)
    flight->previous->next = flight->next;
  else if (flights == flight)
    flights = flight->next;
  if (flight->next) flight->next->previous = flight->previous;
  pthread_mutex_unlock(&list_lock);
}

bool nf_flight_add_descriptor(nf_flight *flight, int descriptor) {
  if (flight->descriptor_count == NF_FLIGHT_DESCRIPTORS) return false;
  flight->descriptors[flight->descriptor_count++] = descriptor;
  return true;
}

void nf_flight_forget_descriptor(nf_flight *flight, int descriptor) {
  for (size_t i = 0; flight && i < flight->descriptor_count; i++) {
    if (flight->descriptors[i] != descriptor) continue;
    flight->descriptors[i] = flight->descriptors[--flight->descriptor_count];
    return;
  }
}

void nf_flight_close_descriptor(nf_flight *flight, int descriptor) {
  size_t before = flight->descriptor_count;
  nf_flight_forget_descriptor(flight, descriptor);
  if (flight->descriptor_count < before) close(descriptor);
}

int nf_flight_opened(nf_flight *flight, int descriptor) {
  if (descriptor >= 0 && flight && !nf_flight_add_descriptor(flight, descriptor)) {
    close(descriptor);
    descriptor = -1;
    errno = EMFILE;
  }
  int number = errno;
  nf_fork_guard_leave();
  errno = number;
  return descriptor;
}

int nf_flight_open(nf_flight *flight, int folder, const char *path, int flags, unsigned mode) {
  nf_fork_guard_enter();
  return nf_flight_opened(flight, openat(folder, path, flags | O_CLOEXEC, mode));
}

int nf_flight_close(nf_flight *flight, int descriptor) {
  nf_fork_guard_enter();
  nf_flight_forget_descriptor(flight, descriptor);
  int result = close(descriptor), number = errno;
  nf_fork_guard_leave();
  errno = number;
  return result;
}
