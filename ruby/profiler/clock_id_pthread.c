#include "clock_id.h"

#include <pthread.h>

bool nf_cpu_clock_supported(void) { return true; }

nf_cpu_clock nf_cpu_clock_of(const nf_vm_thread *thread) {
  nf_cpu_clock clock = {.valid = false};
  // A thread that has no kernel id yet has no pthread_t that may be looked at either.
  pid_t tid = nf_vm_thread_tid(thread);
  if (tid <= 0) return clock;
  pthread_t pthread = nf_vm_thread_pthread(thread);
  if (pthread != (pthread_t)0) {
    clock.valid = pthread_getcpuclockid(pthread, &clock.id) == 0;
  } else {
    clock.id = nf_cpu_clock_id_of_tid(tid);
    clock.valid = true;
  }
  return clock;
}

bool nf_cpu_clock_read(nf_cpu_clock clock, int64_t *nanoseconds) {
  struct timespec now;
  if (!clock.valid || clock_gettime(clock.id, &now) != 0) return false;
  *nanoseconds = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  return true;
}
