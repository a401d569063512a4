#ifndef NF_VM_TIER_H
#define NF_VM_TIER_H

// The functions of private_vm_access.h exist twice: read out of the VM's own structures (private_vm_access.c,
// where there is a header of exactly this Ruby) and through public functions of Ruby only
// (private_vm_access_public.c). vm_access.c holds the choice between them.

// Both files define the functions by their usual names; this gives them names of their own.
#ifdef NF_VM_TIER_NAME
#define nf_vm_holds_gvl NF_VM_TIER_NAME(holds_gvl)
#define nf_vm_after_fork_in_child NF_VM_TIER_NAME(after_fork_in_child)
#define nf_vm_gvl_owner_tid NF_VM_TIER_NAME(gvl_owner_tid)
#define nf_vm_on_main_ractor NF_VM_TIER_NAME(on_main_ractor)
#define nf_vm_look_at_threads NF_VM_TIER_NAME(look_at_threads)
#define nf_vm_each_thread NF_VM_TIER_NAME(each_thread)
#define nf_vm_current_thread NF_VM_TIER_NAME(current_thread)
#define nf_vm_thread_from NF_VM_TIER_NAME(thread_from)
#define nf_vm_thread_object NF_VM_TIER_NAME(thread_object)
#define nf_vm_thread_pthread NF_VM_TIER_NAME(thread_pthread)
#define nf_vm_thread_tid NF_VM_TIER_NAME(thread_tid)
#define nf_vm_thread_alive NF_VM_TIER_NAME(thread_alive)
#define nf_vm_thread_name NF_VM_TIER_NAME(thread_name)
#define nf_vm_thread_fiber NF_VM_TIER_NAME(thread_fiber)
#define nf_vm_thread_birthplace NF_VM_TIER_NAME(thread_birthplace)
#define nf_vm_stack_frames NF_VM_TIER_NAME(stack_frames)
#define nf_vm_thread_raising NF_VM_TIER_NAME(thread_raising)
#define nf_vm_postponed_job_argument NF_VM_TIER_NAME(postponed_job_argument)
#endif

#include "private_vm_access.h"

// ANSWER(type, name, parameters, arguments) for what returns something, NOTHING for what does not.
#define NF_VM_TIER_FUNCTIONS(ANSWER, NOTHING)                                                                \
  NOTHING(after_fork_in_child, (void), ())                                                                   \
  ANSWER(bool, holds_gvl, (void), ())                                                                        \
  ANSWER(pid_t, gvl_owner_tid, (void), ())                                                                   \
  ANSWER(bool, on_main_ractor, (void), ())                                                                   \
  NOTHING(look_at_threads, (void), ())                                                                       \
  NOTHING(each_thread, (void (*each)(nf_vm_thread *, void *), void *data), (each, data))                     \
  ANSWER(nf_vm_thread *, current_thread, (void), ())                                                         \
  ANSWER(nf_vm_thread *, thread_from, (VALUE thread), (thread))                                              \
  ANSWER(VALUE, thread_object, (const nf_vm_thread *thread), (thread))                                       \
  ANSWER(pthread_t, thread_pthread, (const nf_vm_thread *thread), (thread))                                  \
  ANSWER(pid_t, thread_tid, (const nf_vm_thread *thread), (thread))                                          \
  ANSWER(bool, thread_alive, (const nf_vm_thread *thread), (thread))                                         \
  ANSWER(VALUE, thread_name, (const nf_vm_thread *thread), (thread))                                         \
  ANSWER(VALUE, thread_fiber, (const nf_vm_thread *thread), (thread))                                        \
  ANSWER(bool, thread_birthplace, (const nf_vm_thread *thread, VALUE *file, int *line), (thread, file, line)) \
  ANSWER(int, stack_frames, (const nf_vm_thread *thread, nf_vm_frame *frames, int limit, int *total),        \
         (thread, frames, limit, total))                                                                     \
  ANSWER(bool, thread_raising, (const nf_vm_thread *thread), (thread))                                       \
  ANSWER(void *, postponed_job_argument, (void), ())

#define NF_VM_MEMBER(type, name, parameters, arguments) type(*name) parameters;
#define NF_VM_MEMBER_NOTHING(name, parameters, arguments) void(*name) parameters;
typedef struct nf_vm_tier {
  NF_VM_TIER_FUNCTIONS(NF_VM_MEMBER, NF_VM_MEMBER_NOTHING)
} nf_vm_tier;

// The table of a tier, at the end of its file.
#define NF_VM_ENTRY(type, name, parameters, arguments) .name = NF_VM_TIER_NAME(name),
#define NF_VM_ENTRY_NOTHING(name, parameters, arguments) .name = NF_VM_TIER_NAME(name),
#define NF_VM_TIER_TABLE                                                                                     \
  { NF_VM_TIER_FUNCTIONS(NF_VM_ENTRY, NF_VM_ENTRY_NOTHING) }

extern const nf_vm_tier nf_vm_private_tier, nf_vm_public_tier;

// NULL, or why this VM does not look like the header that the private tier was compiled with (static text).
// Follows no pointer that it has not found sound before. If NULL, the tier is ready for use.
const char *nf_vm_private_init(void);

// May raise.
void nf_vm_public_init(void);

#endif
