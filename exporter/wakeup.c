#include "exporter/wakeup.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* How far from where it should be: other threads open and close descriptors just then. A look at one is some
 * system calls, so the wide range is looked at only for what is not in the near one. */
enum { ABOVE = 64, BELOW = 32, FAR_BELOW = 1024, RANGE = FAR_BELOW + ABOVE };

int nf_wakeup_lowest(void) {
  int lowest = eventfd(0, EFD_CLOEXEC);
  if (lowest >= 0) close(lowest);
  return lowest;
}

/* A unix stream socket without a name that a program would inherit. */
static bool possible(int descriptor) {
  int type;
  socklen_t size = sizeof type;
  struct sockaddr_storage name;
  socklen_t name_size = sizeof name;
  return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
         getsockname(descriptor, (struct sockaddr *)&name, &name_size) == 0 && name.ss_family == AF_UNIX &&
         name_size == sizeof name.ss_family && (fcntl(descriptor, F_GETFD) & FD_CLOEXEC) == 0;
}

static bool has_to_read(int descriptor) {
  int bytes = 0;
  return ioctl(descriptor, FIONREAD, &bytes) == 0 && bytes > 0;
}

/* What was written to it has not been read by the other end. */
static bool has_written(int descriptor) {
  int bytes = 0;
  return ioctl(descriptor, TIOCOUTQ, &bytes) == 0 && bytes > 0;
}

static bool find_between(int from, int to, void (*wake)(void *), void (*calm)(void *), void *context,
                         int pair[2]) {
  enum { IDLE = 1, READER = 2, WRITER = 4 };
  unsigned char state[RANGE] = {0};
  int count = to - from, candidates = 0, readers = 0, writers = 0;
  for (int i = 0; i < count; i++) {
    if (!possible(from + i) || has_to_read(from + i) || has_written(from + i)) continue;
    state[i] = IDLE;
    candidates++;
  }
  if (candidates < 2) return false;
  wake(context);
  for (int i = 0; i < count; i++) {
    if (!state[i]) continue;
    if (has_to_read(from + i)) state[i] |= READER;
    if (has_written(from + i)) state[i] |= WRITER;
  }
  calm(context);
  for (int i = 0; i < count; i++) {
    if ((state[i] & READER) && !has_to_read(from + i)) pair[0] = from + i, readers++;
    if ((state[i] & WRITER) && !has_written(from + i)) pair[1] = from + i, writers++;
  }
  return readers == 1 && writers == 1 && pair[0] != pair[1];
}

bool nf_wakeup_find(int lowest, void (*wake)(void *), void (*calm)(void *), void *context, int pair[2]) {
  if (lowest < 0) return false;
  int near = lowest > BELOW ? lowest - BELOW : 0, far = lowest > FAR_BELOW ? lowest - FAR_BELOW : 0;
  return find_between(near, lowest + ABOVE, wake, calm, context, pair) ||
         (far < near && find_between(far, lowest + ABOVE, wake, calm, context, pair));
}
