/* What the driver can ask of preload.c, which stands between a process and its C library (LD_PRELOAD). */
#ifndef NF_TESTS_EXPORTER_PRELOAD_H
#define NF_TESTS_EXPORTER_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/* From now on, calls that change signal dispositions or start timers or threads are printed with their
 * caller: "called<TAB>function<TAB>detail<TAB>shared object"; and readings of the environment:
 * "getenv<TAB>name<TAB>shared object"; and files: "opened<TAB>path". */
void nf_preload_watch(bool on);

/* Between enter and leave, the calling thread's allocations are counted and those that are still there
 * afterwards are known; number `nth` of them (counted from 1) fails, and every later one too if
 * `from_there_on`. 0: none fails. */
void nf_preload_arm(long nth, bool from_there_on);
void nf_preload_enter(void);
void nf_preload_leave(void);

/* How many allocations there have been since it was armed. */
long nf_preload_count(void);

/* How many of them are still there; forgets them. Prints where each came from: "leak<TAB>size<TAB>callers".
 */
size_t nf_preload_outstanding(bool print);

/* From now on, counts the blocks that are freed while they hold this text (each byte given xor 0x5a). */
void nf_preload_watch_secret(const unsigned char *masked, size_t len);
long nf_preload_freed_secrets(void);

#endif
