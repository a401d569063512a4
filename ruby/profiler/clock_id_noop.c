#include "clock_id.h"

bool nf_cpu_clock_supported(void) { return false; }

nf_cpu_clock nf_cpu_clock_of(const nf_vm_thread *thread) {
  (void)thread;
  return (nf_cpu_clock){.valid = false};
}

bool nf_cpu_clock_read(nf_cpu_clock clock, int64_t *nanoseconds) {
  (void)clock;
  (void)nanoseconds;
  return false;
}
