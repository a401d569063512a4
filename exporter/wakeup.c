#include "exporter/wakeup.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* From a little below where it should be: another thread may have closed something there just then. */
enum { LOOKED_AT = 96, BELOW = 32 };

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

bool nf_wakeup_find(int lowest, void (*wake)(void *), void (*calm)(void *), void *context, int pair[2]) {
  if (lowest < 0) return false;
  lowest = lowest > BELOW ? lowest - BELOW : 0;
  bool idle[LOOKED_AT], reader[LOOKED_AT] = {0}, writer[LOOKED_AT] = {0};
  int candidates = 0, readers = 0, writers = 0;
  for (int i = 0; i < LOOKED_AT; i++) {
    idle[i] = possible(lowest + i) && !has_to_read(lowest + i) && !has_written(lowest + i);
    candidates += idle[i];
  }
  if (candidates < 2) return false;
  wake(context);
  for (int i = 0; i < LOOKED_AT; i++) {
    reader[i] = idle[i] && has_to_read(lowest + i);
    writer[i] = idle[i] && has_written(lowest + i);
  }
  calm(context);
  for (int i = 0; i < LOOKED_AT; i++) {
    if (reader[i] && !has_to_read(lowest + i)) pair[0] = lowest + i, readers++;
    if (writer[i] && !has_written(lowest + i)) pair[1] = lowest + i, writers++;
  }
  return readers == 1 && writers == 1 && pair[0] != pair[1];
}
