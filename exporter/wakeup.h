/* Finds the pair of unix sockets by which libcurl wakes a waiting handle. From 7.68 on, until it took to
 * eventfd, it makes them without FD_CLOEXEC and tells nobody their numbers: programs that the process starts
 * meanwhile would keep them open. Known are the moment of their making and how they behave. */
#ifndef NF_EXPORTER_WAKEUP_H
#define NF_EXPORTER_WAKEUP_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The lowest free descriptor, where such a pair will be; -1 if there is none. */
int nf_wakeup_lowest(void);

/* Of the unix sockets without a name around `lowest` (from 1024 below it on) that programs would inherit: the
 * one that has something to read after `wake`, and the one that this was written to, where both hold nothing
 * before, and nothing again after `calm`. Each of the two is called at most twice. False, and `pair` undefined,
 * if these are not exactly two: then it is not known which they are, e.g. because another thread uses such a
 * pair just now. */
bool nf_wakeup_find(int lowest, void (*wake)(void *), void (*calm)(void *), void *context, int pair[2]);

#ifdef __cplusplus
}
#endif

#endif
