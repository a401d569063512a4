#ifndef NF_PRIVATE_VM_LAYOUT_H
#define NF_PRIVATE_VM_LAYOUT_H

// Does the private header describe the Ruby that runs? Part of private_vm_access.c, which alone includes both.
//
// From the current thread inwards, every structure is copied by the kernel, so that an address that is none
// is an error and not a crash, and compared with what Ruby's public methods say; only then are the addresses
// in it followed. All that private_vm_access.c reads is seen here once.

#define LAYOUT_FRAMES 512

// What public methods say.
typedef struct layout_facts {
  VALUE current;        // Thread
  VALUE threads;        // Thread.list
  VALUE names, texts;   // Thread#name and Thread#to_s of each
  VALUE native_id;      // Thread#native_thread_id of the current one, where threads hold it
  VALUE frames;         // of the current one, innermost (Thread#backtrace_locations itself) first
  VALUE malloc_limit;   // as GC.stat has it
  VALUE probe, exception; // a thread with a block and a name, and an error: both only made for this
} layout_facts;

static VALUE ask(VALUE object, const char *method) { return rb_funcall(object, rb_intern(method), 0); }

static VALUE start_probe(VALUE facts) {
  VALUE block = rb_eval_string("proc { Thread.stop }");
  VALUE thread = rb_funcall_with_block(rb_cThread, rb_intern("start"), 0, NULL, block);
  ((layout_facts *)facts)->probe = thread;
  return rb_funcall(thread, rb_intern("name="), 1, rb_str_new_cstr("Datadog::Profiling"));
}

static VALUE end_probe(VALUE probe) {
  ask(probe, "kill");
  return ask(probe, "join");
}

static VALUE gather_facts(VALUE data) {
  layout_facts *facts = (layout_facts *)data;
  facts->threads = ask(rb_cThread, "list");
  facts->names = rb_ary_new();
  facts->texts = rb_ary_new();
  for (long i = 0; i < RARRAY_LEN(facts->threads); i++) {
    rb_ary_push(facts->names, ask(rb_ary_entry(facts->threads, i), "name"));
    rb_ary_push(facts->texts, ask(rb_ary_entry(facts->threads, i), "to_s"));
  }
#ifdef THREADS_HOLD_THEIR_TID
  facts->native_id = ask(facts->current, "native_thread_id");
#endif
  facts->malloc_limit = rb_funcall(rb_path2class("GC"), rb_intern("stat"), 1,
                                   ID2SYM(rb_intern("malloc_increase_bytes_limit")));
  facts->exception = rb_exc_new_cstr(rb_eRuntimeError, "");
  facts->frames = rb_funcall(facts->current, rb_intern("backtrace_locations"), 2, INT2FIX(0),
                             INT2FIX(LAYOUT_FRAMES));
  return RUBY_Qnil;
}

static long index_of(VALUE list, VALUE object) {
  for (long i = 0; i < RARRAY_LEN(list); i++) {
    if (rb_ary_entry(list, i) == object) return i;
  }
  return -1;
}

static bool imemo_flags(VALUE flags, enum imemo_type type) {
  return (flags & RUBY_T_MASK) == RUBY_T_IMEMO && ((flags >> RUBY_FL_USHIFT) & 0xf) == (VALUE)type;
}

// False: there is no code.
static bool copy_iseq(const rb_iseq_t *from, struct rb_iseq_constant_body *body) {
  rb_iseq_t iseq;
  return copy(&iseq, from, sizeof(iseq)) && imemo_flags(iseq.flags, imemo_iseq) &&
         copy(body, iseq.body, sizeof(*body));
}

static const char *wrong_iseq(const rb_control_frame_t *frame, VALUE location, VALUE name) {
  struct rb_iseq_constant_body body;
  if (!copy_iseq(frame->iseq, &body)) return "no code of a frame is where the header says";
  if (body.location.base_label != name || !FIXNUM_P(body.location.first_lineno)) {
    return "the code of a frame does not hold its name where the header says";
  }
  if (frame->pc < body.iseq_encoded || frame->pc > body.iseq_encoded + body.iseq_size) {
    return "a frame is not inside of its code where the header says";
  }
  size_t position = (size_t)(frame->pc - body.iseq_encoded);
  if ((int)rb_iseq_line_no(frame->iseq, position > 0 ? position - 1 : 0) != NUM2INT(ask(location, "lineno"))) {
    return "a frame is not at its line of code where the header says";
  }
  if (!RTEST(rb_equal(rb_iseq_path(frame->iseq), ask(location, "path")))) {
    return "a frame's code is not that of its file";
  }
  return NULL;
}

// env: what lies below the frame's environment, method entry first.
static const char *wrong_native(const VALUE *env, VALUE name) {
  VALUE flags;
  const void *entry = (const void *)env[0];
  if (copy(&flags, entry, sizeof(flags)) && imemo_flags(flags, imemo_svar)) {
    struct vm_svar svar;
    if (copy(&svar, entry, sizeof(svar))) entry = (const void *)svar.cref_or_me;
  }
  rb_callable_method_entry_t method;
  struct rb_method_definition_struct definition;
  if (!copy(&method, entry, sizeof(method)) || !imemo_flags(method.flags, imemo_ment) ||
      !copy(&definition, method.def, sizeof(definition))) {
    return "no method of a frame in C is where the header says";
  }
  if (RB_TYPE_P(name, RUBY_T_STRING) && definition.original_id != rb_intern_str(name)) {
    return "the method of a frame in C does not hold its name where the header says";
  }
  return NULL;
}

static const char *wrong_frames(const rb_execution_context_t *ec, VALUE locations) {
  const rb_control_frame_t *end = RUBY_VM_NEXT_CONTROL_FRAME(RUBY_VM_END_CONTROL_FRAME(ec));
  if (RB_NIL_P(locations)) return "the current thread has no backtrace";
  long at = 1, count = RARRAY_LEN(locations);
  for (const rb_control_frame_t *cfp = ec->cfp; cfp < end && at < count; cfp++) {
    rb_control_frame_t frame;
    if (!copy(&frame, cfp, sizeof(frame))) return "a control frame is not where the header says";
    VALUE env[3]; // method entry, block, flags
    if (frame.iseq != NULL) {
      if (frame.pc == NULL) continue;
    } else {
      if (!copy(env, frame.ep - 2, sizeof(env))) {
        return "a control frame's environment is not where the header says";
      }
      if ((env[2] & VM_FRAME_MAGIC_MASK) != VM_FRAME_MAGIC_CFUNC) continue;
    }
    VALUE location = rb_ary_entry(locations, at++), name = ask(location, "base_label");
    const char *wrong = frame.iseq ? wrong_iseq(&frame, location, name) : wrong_native(env, name);
    if (wrong != NULL) return wrong;
  }
  return at == count ? NULL : "there are fewer control frames than in a backtrace";
}

static const char *wrong_context(const rb_thread_t *th, const rb_execution_context_t *ec, layout_facts *facts) {
  if (ec->thread_ptr != th) return "the execution context does not lead back to its thread where the header says";
  if (ec->vm_stack == NULL || (VALUE *)ec->cfp <= ec->vm_stack ||
      ec->vm_stack_size > SIZE_MAX / 2 / sizeof(VALUE) ||
      (VALUE *)ec->cfp >= ec->vm_stack + ec->vm_stack_size) {
    return "the control frame is not on the VM's stack where the header says";
  }
  VALUE before = rb_errinfo();
  rb_set_errinfo(facts->exception);
  rb_execution_context_t raising;
  bool same = copy(&raising, CURRENT_EC, sizeof(raising)) && raising.errinfo == facts->exception;
  rb_set_errinfo(before);
  if (!same) return "the execution context does not hold its exception where the header says";
  VALUE fiber[8];
  if (!copy(fiber, ec->fiber_ptr, sizeof(fiber))) {
    return "the execution context does not hold its fiber where the header says";
  }
  return wrong_frames(ec, facts->frames);
}

// Of any thread in the list. Sets *born: its text names the place that was read.
static const char *wrong_thread(const rb_thread_t *copied, const layout_facts *facts, long index, bool *born) {
  VALUE name = rb_ary_entry(facts->names, index);
  if (copied->name != name && !(copied->name == 0 && RB_NIL_P(name))) {
    return "a thread does not hold its name where the header says";
  }
  *born = false;
  if (copied->invoke_type != thread_invoke_type_proc) return NULL;
  struct RBasic proc;
  if (!copy(&proc, (const void *)copied->invoke_arg.proc.proc, sizeof(proc)) ||
      (proc.flags & RUBY_T_MASK) != RUBY_T_DATA || proc.klass != rb_cProc) {
    return "a thread does not hold its block where the header says";
  }
  const rb_iseq_t *iseq = rb_proc_get_iseq(copied->invoke_arg.proc.proc, NULL);
  if (iseq == NULL) return NULL;
  struct rb_iseq_constant_body body;
  if (!copy_iseq(iseq, &body)) return "the code of a thread's block is not where the header says";
  VALUE place = rb_sprintf(" %" PRIsVALUE ":%d ", rb_iseq_path(iseq), FIX2INT(body.location.first_lineno));
  VALUE text = rb_ary_entry(facts->texts, index);
  *born = RTEST(rb_funcall(text, rb_intern("include?"), 1, place));
  return *born ? NULL : "the code of a thread's block does not hold its place where the header says";
}

static const char *wrong_thread_list(const thread_home *home_at, const thread_home *copied,
                                     layout_facts *facts) {
  const struct list_node *head = &THREAD_LIST(home_at).n;
  const struct list_node *node = THREAD_LIST(copied).n.next;
  long found = 0, threads = RARRAY_LEN(facts->threads);
  bool probed = RB_NIL_P(facts->probe);
  for (long steps = 0; node != head; steps++) {
    rb_thread_t th;
    const char *at = (const char *)node - offsetof(rb_thread_t, THREAD_NODE);
    if (steps > threads + 1000 || !copy(&th, at, sizeof(th))) {
      return "the list of threads is not where the header says";
    }
    node = th.THREAD_NODE.next;
    if (th.status == THREAD_KILLED) continue;
    long index = index_of(facts->threads, th.self);
    if (index < 0) return "the list of threads does not hold those of Thread.list where the header says";
    found++;
    bool born;
    const char *wrong = wrong_thread(&th, facts, index, &born);
    if (wrong != NULL) return wrong;
    probed = probed || (born && th.self == facts->probe);
  }
  if (found != threads) return "the list of threads is not as long as Thread.list where the header says";
  return probed ? NULL : "a thread does not say how it was started where the header says";
}

// CURRENT_EC and ruby_current_vm_ptr are variables of Ruby's own: their addresses are no guess.
static const char *wrong_structures(layout_facts *facts) {
  const rb_thread_t *th_at = RTYPEDDATA_DATA(facts->current);
  rb_thread_t th;
  if (!copy(&th, th_at, sizeof(th)) || th.self != facts->current) {
    return "the current thread's structure does not hold its Thread object where the header says";
  }
  if (th.ec != CURRENT_EC) {
    return "the current thread's structure does not hold its execution context where the header says";
  }
  if (th.vm != ruby_current_vm_ptr) {
    return "the current thread's structure does not hold the VM where the header says";
  }
  if (!pthread_equal(th.thread_id, pthread_self())) {
    return "the current thread's structure does not hold its pthread_t where the header says";
  }
#ifdef THREADS_HOLD_THEIR_TID
  // In a forked child, Ruby still has the id of the parent's thread.
  if (th.tid != (int)syscall(SYS_gettid) && (thread_exists(th.tid) || INT2FIX(th.tid) != facts->native_id)) {
    return "the current thread's structure does not hold its kernel id where the header says";
  }
#endif
  rb_execution_context_t ec;
  if (!copy(&ec, th.ec, sizeof(ec))) return "there is no execution context where the header says";
  const char *wrong = wrong_context(th_at, &ec, facts);
  if (wrong != NULL) return wrong;

  rb_vm_t vm;
  uintptr_t limit;
  if (!copy(&vm, th.vm, sizeof(vm))) return "there is no VM where the header says";
#ifdef HAS_RACTORS
  const thread_home *home_at = vm.ractor.main_ractor;
  thread_home copied;
  if (!copy(&copied, home_at, sizeof(copied))) {
    return "the VM does not hold its main Ractor where the header says";
  }
#else
  const thread_home *home_at = th.vm;
  const thread_home copied = vm;
#endif
  if (GVL_OWNER(&copied) != th_at) {
    return "the " HOME " does not name the thread that holds the GVL where the header says";
  }
#ifdef HAS_RACTORS
  if (copied.threads.running_ec != th.ec) {
    return "the main Ractor does not name the running execution context where the header says";
  }
#endif
  if (MAIN_THREAD(&copied) != RTYPEDDATA_DATA(rb_thread_main())) {
    return "the " HOME " does not name its main thread where the header says";
  }
  if (!copy(&limit, vm.objspace, sizeof(limit)) || limit != NUM2SIZET(facts->malloc_limit)) {
    return "the VM does not hold its heap where the header says";
  }
  return wrong_thread_list(home_at, &copied, facts);
}

static VALUE compare_with_facts(VALUE data) { return (VALUE)wrong_structures((layout_facts *)data); }

// NULL, or what is not where the header says. Raises what the program's own versions of public methods raise.
static const char *wrong_layout(void) {
  const char *wrong = NULL;
  // Where the program has changed something in between (a thread has come or gone), the next look is better.
  for (int attempt = 0; attempt < 3; attempt++) {
    layout_facts facts = {.current = rb_thread_current(), .probe = RUBY_Qnil};
    VALUE error = rb_errinfo();
    int raised = 0, ignored = 0;
    rb_protect(start_probe, (VALUE)&facts, &ignored); // where no thread can be started, there is one less
    if (ignored) rb_set_errinfo(error);
    rb_protect(gather_facts, (VALUE)&facts, &raised);
    if (!raised) wrong = (const char *)rb_protect(compare_with_facts, (VALUE)&facts, &raised);
    if (!RB_NIL_P(facts.probe)) rb_protect(end_probe, facts.probe, raised ? &ignored : &raised);
    if (raised) rb_jump_tag(raised);
    if (wrong == NULL) break;
  }
  return wrong;
}

#endif
