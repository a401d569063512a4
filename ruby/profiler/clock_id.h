#ifndef NF_CLOCK_ID_H
#define NF_CLOCK_ID_H

// The CPU clock of another thread. clock_id_pthread.c has it through pthread_getcpuclockid (Linux); on
// systems without that function clock_id_noop.c is built in its place, and CPU time is simply not known.
// Neither raises.

#include "private_vm_access.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

typedef struct nf_cpu_clock {
  bool valid;
  clockid_t id;
} nf_cpu_clock;

// Can this build tell CPU time at all?
bool nf_cpu_clock_supported(void);

// The clock of a thread of which only the kernel id is known, as Linux makes it. The self-test compares it with
// what pthread_getcpuclockid says.
static inline clockid_t nf_cpu_clock_id_of_tid(pid_t tid) { return (clockid_t)((~(unsigned)tid << 3) | 6); }

// The caller holds the GVL and the thread is alive (its native thread may be used by nobody else yet).
nf_cpu_clock nf_cpu_clock_of(const nf_vm_thread *thread);

// Nanoseconds of CPU time that the thread has used so far; false when the clock cannot be read (any more).
bool nf_cpu_clock_read(nf_cpu_clock clock, int64_t *nanoseconds);

#endif
