#include "postponed_job.h"

#include "private_vm_access.h"

#include <ruby/debug.h>
#include <ruby/version.h>

#if RUBY_API_VERSION_CODE >= 30300

void nf_postponed_job_define(nf_postponed_job *job, void (*function)(void *)) {
  rb_postponed_job_handle_t handle = rb_postponed_job_preregister(0, function, NULL);
  if (handle == POSTPONED_JOB_HANDLE_INVALID) {
    rb_raise(rb_eRuntimeError, "the VM has no room for another postponed job");
  }
  job->function = function;
  job->handle = handle;
}

// Triggering again before the job ran changes nothing, and the VM does not tell.
nf_postponed_job_result nf_postponed_job_trigger(const nf_postponed_job *job) {
  rb_postponed_job_trigger(job->handle);
  return NF_JOB_TRIGGERED;
}

#else

void nf_postponed_job_define(nf_postponed_job *job, void (*function)(void *)) { job->function = function; }

nf_postponed_job_result nf_postponed_job_trigger(const nf_postponed_job *job) {
  return (nf_postponed_job_result)rb_postponed_job_register_one(0, job->function,
                                                                nf_vm_postponed_job_argument());
}

#endif
