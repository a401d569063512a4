#include "self_test.h"

#include "clock_id.h"
#include "private_vm_access.h"
#include "time_helpers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FRAMES 512

static VALUE call(VALUE object, const char *method) { return rb_funcall(object, rb_intern(method), 0); }

static VALUE test_version(void) {
  VALUE running = rb_const_get(rb_cObject, rb_intern("RUBY_VERSION"));
  if (strcmp(StringValueCStr(running), nf_vm_built_for()) == 0) return Qnil;
  return rb_sprintf("built for Ruby %s but loaded by %" PRIsVALUE, nf_vm_built_for(), running);
}

static VALUE test_thread(void) {
  VALUE current = rb_thread_current();
  nf_vm_thread *thread = nf_vm_current_thread();
  pid_t tid = (pid_t)syscall(SYS_gettid);
  if (nf_vm_thread_object(thread) != current || nf_vm_thread_from(current) != thread) {
    return rb_str_new_cstr("the current thread is not the one that Thread.current gives");
  }
  if (!pthread_equal(nf_vm_thread_pthread(thread), pthread_self())) {
    return rb_str_new_cstr("the pthread_t of the current thread is not pthread_self()");
  }
  if (nf_vm_thread_tid(thread) !=
      tid) { // Thread#native_thread_id may be the parent's after a fork, so we ask the system
    return rb_sprintf("the kernel id of the current thread is %d, but was read as %d", (int)tid,
                      (int)nf_vm_thread_tid(thread));
  }
  if (!nf_vm_thread_alive(thread)) return rb_str_new_cstr("the current thread was read as dead");
  VALUE name = nf_vm_thread_name(thread), public_name = call(current, "name");
  if (!rb_equal(name, public_name)) {
    return rb_sprintf("Thread#name is %" PRIsVALUE ", but was read as %" PRIsVALUE, rb_inspect(public_name),
                      rb_inspect(name));
  }
  return Qnil;
}

static VALUE test_gvl(void) {
  pid_t owner = nf_vm_gvl_owner_tid(), tid = (pid_t)syscall(SYS_gettid);
  if (owner != tid) return rb_sprintf("thread %d holds the GVL, but %d was read", (int)tid, (int)owner);
  if (!nf_vm_holds_gvl()) return rb_str_new_cstr("the current thread was read as not holding the GVL");
  return Qnil;
}

static VALUE test_clock(void) {
  if (!nf_cpu_clock_supported()) return Qnil;
  int64_t before, between, after;
  nf_cpu_clock own = {.valid = true, .id = CLOCK_THREAD_CPUTIME_ID};
  bool read = nf_cpu_clock_read(own, &before) &&
              nf_cpu_clock_read(nf_cpu_clock_of(nf_vm_current_thread()), &between) &&
              nf_cpu_clock_read(own, &after);
  if (read && before <= between && between <= after) return Qnil;
  return rb_str_new_cstr("the CPU clock of the current thread is not the one that the system has for it");
}

// Clocks of threads of which only the kernel id is known are made by a rule.
static VALUE test_clock_rule(void) {
  clockid_t id;
  if (nf_vm_private() || pthread_getcpuclockid(pthread_self(), &id) != 0) return Qnil;
  if (id == nf_cpu_clock_id_of_tid((pid_t)syscall(SYS_gettid))) return Qnil;
  return rb_str_new_cstr("the system makes the CPU clock of a thread in a way that we do not know");
}

typedef struct collected_threads {
  VALUE expected; // Thread.list
  long found;
  bool stranger;
} collected_threads;

static void compare_thread(nf_vm_thread *thread, void *data) {
  collected_threads *threads = data;
  VALUE object = nf_vm_thread_object(thread);
  for (long i = 0; i < RARRAY_LEN(threads->expected); i++) {
    if (rb_ary_entry(threads->expected, i) == object) {
      threads->found++;
      return;
    }
  }
  threads->stranger = true;
}

static VALUE test_thread_list(void) {
  collected_threads threads = {.expected = call(rb_cThread, "list")};
  nf_vm_each_thread(compare_thread, &threads);
  if (!threads.stranger && threads.found == RARRAY_LEN(threads.expected)) return Qnil;
  return rb_sprintf("Thread.list has %ld threads, of which %ld were found%s", RARRAY_LEN(threads.expected),
                    threads.found, threads.stranger ? ", and others besides" : "");
}

static bool same_text(VALUE text, const char *other, size_t length) {
  if (NIL_P(text)) return length == 0;
  return (size_t)RSTRING_LEN(text) == length && memcmp(RSTRING_PTR(text), other, length) == 0;
}

static VALUE test_frames(void) {
  VALUE current = rb_thread_current();
  VALUE locations = call(current, "backtrace_locations"); // with its own frame on top
  VALUE buffer = rb_str_new(NULL, FRAMES * (long)sizeof(nf_vm_frame));
  nf_vm_frame *frames = (nf_vm_frame *)(void *)RSTRING_PTR(buffer);
  int total;
  int count = nf_vm_stack_frames(nf_vm_current_thread(), frames, FRAMES, &total);
  if (NIL_P(locations) || total != RARRAY_LEN(locations) - 1) {
    return rb_sprintf("the stack has %ld frames, but %d were found",
                      NIL_P(locations) ? 0L : RARRAY_LEN(locations) - 1, total);
  }
  for (int i = 0; i < count; i++) {
    VALUE location = rb_ary_entry(locations, i + 1);
    VALUE name = call(location, "base_label"), file = call(location, "path");
    VALUE line = call(location, "lineno");
    // The frame that asked may have moved on within its line, all others stand still.
    if (!same_text(name, frames[i].name, frames[i].name_length) ||
        !same_text(file, frames[i].file, frames[i].file_length) ||
        (frames[i].line != 0 && NUM2INT(line) != frames[i].line)) {
      return rb_sprintf("frame %d is %" PRIsVALUE " at %" PRIsVALUE ":%" PRIsVALUE
                        ", but was read as %.*s at %.*s:%d",
                        i, name, file, line, (int)frames[i].name_length, frames[i].name,
                        (int)frames[i].file_length, frames[i].file, frames[i].line);
    }
  }
  RB_GC_GUARD(buffer);
  return Qnil;
}

typedef VALUE (*test)(void);

static VALUE first_difference(const test *tests, size_t count) {
  for (size_t i = 0; i < count; i++) {
    VALUE reason = tests[i]();
    if (!NIL_P(reason)) return reason;
  }
  return Qnil;
}

VALUE nf_self_test(void) {
  static const test of_private[] = {test_version, test_thread,      test_gvl,
                                    test_clock,   test_thread_list, test_frames};
  // What is compared with public functions above comes from these in the public tier.
  static const test of_public[] = {test_thread, test_clock, test_clock_rule};
  static bool passed = false;

  VALUE reason = Qnil;
  if (nf_vm_private()) {
    reason = first_difference(of_private, sizeof(of_private) / sizeof(of_private[0]));
    if (!NIL_P(reason) && !passed) nf_vm_use_public_tier(StringValueCStr(reason));
  }
  if (!nf_vm_private()) reason = first_difference(of_public, sizeof(of_public) / sizeof(of_public[0]));
  if (NIL_P(reason)) passed = true; // who has sampled stays with its tier
  return reason;
}
