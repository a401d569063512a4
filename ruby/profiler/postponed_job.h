#ifndef NF_POSTPONED_JOB_H
#define NF_POSTPONED_JOB_H

// Work that the VM does at its next safe place, over the differences between Rubies: since 3.3 jobs are
// registered once and then triggered.

#include <stdbool.h>

typedef struct nf_postponed_job {
  void (*function)(void *);
  unsigned handle; // since 3.3
} nf_postponed_job;

typedef enum nf_postponed_job_result {
  NF_JOB_FULL = 0, // the VM has no room; nothing will run
  NF_JOB_TRIGGERED = 1,
  NF_JOB_WAITS_ALREADY = 2, // it will run once
} nf_postponed_job_result;

// Once for each job, at start. Raises if the VM has no room for it.
void nf_postponed_job_define(nf_postponed_job *job, void (*function)(void *));

// Async-signal-safe. A job that waits already is not triggered twice.
nf_postponed_job_result nf_postponed_job_trigger(const nf_postponed_job *job);

#endif
