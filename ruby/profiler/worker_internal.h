#ifndef NF_WORKER_INTERNAL_H
#define NF_WORKER_INTERNAL_H

// What worker.c shows to its test doors only.

#include <ruby.h>

#include <signal.h>

void nf_worker_handle_signal(int signal, siginfo_t *info, void *context); // the handler of SIGPROF
void nf_worker_sample_job(void *argument);                                // the postponed job
VALUE nf_worker_running_p(VALUE self, VALUE object);

// What a sample does that cannot be taken: the loop ends and raises this.
void nf_worker_fail(VALUE object, const char *text);

// Defines CpuAndWallTimeWorker::Testing.
void nf_worker_define_testing(VALUE klass);

#endif
