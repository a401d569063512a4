// The only file that includes Ruby's private header. Some parts follow the VM's own code closely, as they
// must see the same frames (vm_backtrace.c, thread.c and vm_core.h of Ruby: Copyright (C) Yukihiro Matsumoto,
// under the BSD-2-Clause licence, see NOTICE).

// It declares static functions that it does not define, which is found out only at the end of the file.
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include RUBY_MJIT_HEADER
#pragma GCC diagnostic pop

#include <ruby/version.h>

#define NF_PRIVATE_VM_ACCESS_INSIDE
#define NF_VM_TIER_NAME(name) nf_vm_private_##name
#include "vm_tier.h"

#include "private_vm_shape.h"

#include "private_vm_layout.h"

static thread_home *home; // lives as long as the VM
static const rb_data_type_t *thread_type;

#ifdef THREADS_HOLD_THEIR_TID
// After a fork: the thread that did it, and its kernel id. It is the child's main thread, so it is never
// freed.
static const rb_thread_t *survivor;
static pid_t survivor_tid;
#endif

// Which word of the VM's fiber structure (of which no header knows) is the Fiber object; -1: not found.
static int fiber_object_word = -1;

static bool alive(const rb_thread_t *th) { return th->status != THREAD_KILLED; }

static inline rb_thread_t *vm_thread(const nf_vm_thread *thread) { return (rb_thread_t *)thread; }

// We may be loaded in a child of a fork that we have not seen: then its main thread is the one that is left.
static void find_survivor(void) {
#ifdef THREADS_HOLD_THEIR_TID
  const rb_thread_t *main = RTYPEDDATA_DATA(rb_thread_main());
  if (thread_exists(main->tid)) return;
  survivor = main;
  survivor_tid = getpid();
#endif
}

const char *nf_vm_private_init(void) {
  static char reason[160];
  if (strcmp(ruby_version, NF_RUBY_VERSION) != 0) {
    snprintf(reason, sizeof(reason), "built for Ruby %s but loaded by %s", NF_RUBY_VERSION, ruby_version);
    return reason;
  }
#ifndef THREADS_HOLD_THEIR_TID
  if (!find_tids()) return "the system does not keep a thread's kernel id where it could be found";
#endif
  const char *wrong = wrong_layout();
  if (wrong != NULL) return wrong;
#ifndef HAS_RACTORS
  if (!find_thread_key()) return "Ruby does not keep a native thread's structure where it could be found";
#endif
  find_survivor();
  thread_type = RTYPEDDATA_TYPE(rb_thread_current()); // not exported by its name everywhere
  home = home_of(CURRENT_EC->thread_ptr->vm);

  VALUE fiber = rb_fiber_current();
  for (int i = 0; i < 8 && fiber_object_word < 0; i++) {
    if (((const VALUE *)CURRENT_EC->fiber_ptr)[i] == fiber) fiber_object_word = i;
  }
  return NULL;
}

void nf_vm_after_fork_in_child(void) {
#ifdef THREADS_HOLD_THEIR_TID
  survivor = ruby_native_thread_p() && CURRENT_EC != NULL ? CURRENT_EC->thread_ptr : NULL;
  survivor_tid = getpid(); // the first thread of a process has its id
#endif
}

#ifdef HAS_RACTORS
// No pointer is followed before it is known to belong to this very thread: `ruby_native_thread_p` says
// whether this is a living Ruby thread, and its execution context can only be the Ractor's running one if no
// other thread has taken over (and could have freed something) since. The last check closes the moment in
// which another thread has taken the GVL but has not yet put its own context there.
bool nf_vm_holds_gvl(void) {
  if (home == NULL || !ruby_native_thread_p()) return false;
  const rb_thread_t *owner = *(const rb_thread_t *const volatile *)&GVL_OWNER(home);
  const rb_execution_context_t *ec = CURRENT_EC;
  if (owner == NULL || ec == NULL) return false;
  if (*(rb_execution_context_t *const volatile *)&home->threads.running_ec != ec) return false;
  return ec->thread_ptr == owner;
}
#else
// The structure that Ruby keeps for this native thread is followed only if it is the owner's. A native thread
// that waits for its next Ruby thread may still have that of its last, whose place in memory another one has
// taken: so it must be this one's own. The last check closes the moment in which this thread has taken the
// GVL but has not yet put its context in the place of another's.
bool nf_vm_holds_gvl(void) {
  if (home == NULL) return false;
  const rb_thread_t *th = pthread_getspecific(thread_key);
  if (th == NULL || *(const rb_thread_t *const volatile *)&GVL_OWNER(home) != th) return false;
  if (!pthread_equal(th->thread_id, pthread_self())) return false;
  return th->ec != NULL && *(rb_execution_context_t *const volatile *)&CURRENT_EC == th->ec;
}
#endif

pid_t nf_vm_gvl_owner_tid(void) {
  const rb_thread_t *const volatile *owner = (const rb_thread_t *const volatile *)&GVL_OWNER(home);
  const rb_thread_t *before = *owner;
  if (before == NULL) return 0;

  // The thread may end, and its memory may be freed, at any moment: let the kernel copy its id, so that an
  // address that is gone is an error and not a crash.
  int tid = 0;
#ifdef THREADS_HOLD_THEIR_TID
  if (before == survivor) return survivor_tid;
  // Where the kernel forbids that, the plain read is all there is.
  struct iovec to = {.iov_base = &tid, .iov_len = sizeof(tid)};
  struct iovec from = {.iov_base = (void *)&before->tid, .iov_len = sizeof(tid)};
  static bool forbidden = false;
  if (!forbidden && syscall(SYS_process_vm_readv, getpid(), &to, 1L, &from, 1L, 0L) != (long)sizeof(tid)) {
    if (errno != EPERM && errno != ENOSYS) return -1;
    forbidden = true;
  }
  if (forbidden) tid = *(const volatile int *)&before->tid;
#else
  pthread_t native;
  if (!copy(&native, &before->thread_id, sizeof(native)) || !native ||
      !copy(&tid, tid_at(native), sizeof(tid))) {
    return -1;
  }
#endif
  return *owner == before && tid > 0 ? tid : -1;
}

bool nf_vm_on_main_ractor(void) {
#ifdef HAS_RACTORS
  return rb_ractor_main_p();
#else
  return true;
#endif
}

void nf_vm_look_at_threads(void) {} // what is asked for is there

void nf_vm_each_thread(void (*each)(nf_vm_thread *thread, void *data), void *data) {
  struct list_node *head = &THREAD_LIST(home).n;
  for (struct list_node *node = head->next, *next; node != head; node = next) {
    next = node->next;
    rb_thread_t *th = (rb_thread_t *)((char *)node - offsetof(rb_thread_t, THREAD_NODE));
    if (alive(th)) each((nf_vm_thread *)th, data);
  }
}

nf_vm_thread *nf_vm_current_thread(void) { return (nf_vm_thread *)CURRENT_EC->thread_ptr; }

nf_vm_thread *nf_vm_thread_from(VALUE thread) {
  return (nf_vm_thread *)rb_check_typeddata(thread, thread_type);
}

VALUE nf_vm_thread_object(const nf_vm_thread *thread) { return vm_thread(thread)->self; }
pthread_t nf_vm_thread_pthread(const nf_vm_thread *thread) { return vm_thread(thread)->thread_id; }
pid_t nf_vm_thread_tid(const nf_vm_thread *thread) {
  const rb_thread_t *th = vm_thread(thread);
#ifdef THREADS_HOLD_THEIR_TID
  return th == survivor ? survivor_tid : *(const volatile int *)&th->tid;
#else
  if (!alive(th) || !th->thread_id) return 0; // its native thread is not there yet, or gone
  pid_t tid = *(const volatile pid_t *)tid_at(th->thread_id);
  return tid > 0 ? tid : 0;
#endif
}

bool nf_vm_thread_alive(const nf_vm_thread *thread) { return alive(vm_thread(thread)); }

VALUE nf_vm_thread_name(const nf_vm_thread *thread) {
  VALUE name = vm_thread(thread)->name;
  return name && RB_TYPE_P(name, RUBY_T_STRING) ? name : RUBY_Qnil;
}

VALUE nf_vm_thread_fiber(const nf_vm_thread *thread) {
  const rb_execution_context_t *ec = vm_thread(thread)->ec;
  if (fiber_object_word < 0 || ec == NULL || ec->fiber_ptr == NULL) return RUBY_Qnil;
  VALUE fiber = ((const VALUE *)ec->fiber_ptr)[fiber_object_word];
  return fiber != 0 ? fiber : RUBY_Qnil;
}

bool nf_vm_thread_birthplace(const nf_vm_thread *thread, VALUE *file, int *line) {
  const rb_thread_t *th = vm_thread(thread);
  if (th->invoke_type != thread_invoke_type_proc) return false;
  const rb_iseq_t *iseq = rb_proc_get_iseq(th->invoke_arg.proc.proc, NULL);
  if (iseq == NULL) return false;
  *file = rb_iseq_path(iseq);
  *line = FIXNUM_P(iseq->body->location.first_lineno) ? (int)FIX2LONG(iseq->body->location.first_lineno) : 0;
  return RB_TYPE_P(*file, RUBY_T_STRING);
}

static void set_text(VALUE string, const char **text, size_t *length) {
  if (RB_SPECIAL_CONST_P(string) || !RB_TYPE_P(string, RUBY_T_STRING)) {
    *text = "";
    *length = 0;
    return;
  }
  *text = RSTRING_PTR(string);
  *length = (size_t)RSTRING_LEN(string);
}

static int first_line(const rb_iseq_t *iseq) {
  return FIXNUM_P(iseq->body->location.first_lineno) ? (int)FIX2LONG(iseq->body->location.first_lineno) : 0;
}

// pc stands behind the instruction that is being run, except at the very start of a frame.
static int line_of(const rb_iseq_t *iseq, const VALUE *pc) {
  const VALUE *code = iseq->body->iseq_encoded;
  if (pc < code || pc > code + iseq->body->iseq_size) return first_line(iseq);
  size_t position = (size_t)(pc - code);
  if (position > 0) position--;
  return (int)rb_iseq_line_no(iseq, position);
}

static void set_native_name(const rb_control_frame_t *cfp, nf_vm_frame *frame) {
  const rb_callable_method_entry_t *entry = rb_vm_frame_method_entry(cfp);
  VALUE name = entry && entry->def ? rb_id2str(entry->def->original_id) : RUBY_Qfalse;
  set_text(name, &frame->name, &frame->name_length);
  if (entry && entry->def && entry->def->type == VM_METHOD_TYPE_CFUNC) {
    frame->function = __extension__(const void *) entry->def->body.cfunc.func;
  }
  if (name == RUBY_Qfalse) { // an internal id, it has no text
    frame->name = "(unnamed)";
    frame->name_length = sizeof("(unnamed)") - 1;
  }
}

int nf_vm_stack_frames(const nf_vm_thread *thread, nf_vm_frame *frames, int limit, int *total) {
  const rb_thread_t *th = vm_thread(thread);
  *total = 0;
  if (!alive(th)) return 0;

  const rb_execution_context_t *ec = th->ec;
  if (ec == NULL || ec->vm_stack == NULL || ec->vm_stack_size == 0) return NF_VM_NO_RUBY_STACK;
  const rb_control_frame_t *cfp = ec->cfp;
  if (cfp == NULL) return 0;
  const rb_control_frame_t *end =
      RUBY_VM_NEXT_CONTROL_FRAME(RUBY_VM_END_CONTROL_FRAME(ec)); // the dummy at the base
  if (end <= cfp) return NF_VM_NO_RUBY_STACK;

  int found = 0, kept = 0;
  int natives_waiting = 0; // the last kept frames, which take file and line from the next Ruby frame
  for (bool innermost = true; cfp < end; cfp = RUBY_VM_PREVIOUS_CONTROL_FRAME(cfp)) {
    bool ruby = cfp->iseq != NULL;
    if (ruby ? cfp->pc == NULL : !RUBYVM_CFUNC_FRAME_P(cfp))
      continue; // internal frames, in no backtrace either

    nf_vm_frame *frame = found < limit ? &frames[found] : NULL;
    found++;
    if (frame) {
      kept++;
      frame->native = !ruby;
      frame->function = NULL;
      frame->file = "";
      frame->file_length = 0;
      frame->line = 0;
    }
    if (!ruby) {
      if (frame) {
        set_native_name(cfp, frame);
        natives_waiting++;
      }
    } else if (frame || natives_waiting > 0) {
      const char *file;
      size_t file_length;
      set_text(rb_iseq_path(cfp->iseq), &file, &file_length);
      // With a JIT the pc of the innermost frame may be one of an earlier call (see Ruby's pull request
      // 8415).
      int line = innermost && IN_JIT(cfp) ? 0 : line_of(cfp->iseq, cfp->pc);
      for (int i = kept - (frame ? 2 : 1); natives_waiting > 0; i--, natives_waiting--) {
        frames[i].file = file;
        frames[i].file_length = file_length;
        frames[i].line = line;
      }
      if (frame) {
        set_text(cfp->iseq->body->location.base_label, &frame->name, &frame->name_length);
        frame->file = file;
        frame->file_length = file_length;
        frame->line = line;
      }
    }
    innermost = false;
  }
  *total = found;
  return kept;
}

bool nf_vm_thread_raising(const nf_vm_thread *thread) {
  const rb_execution_context_t *ec = vm_thread(thread)->ec;
  return ec != NULL && ec->raised_flag != 0;
}

void *nf_vm_postponed_job_argument(void) { return MAIN_THREAD(home)->vm->objspace; }

const nf_vm_tier nf_vm_private_tier = NF_VM_TIER_TABLE;
