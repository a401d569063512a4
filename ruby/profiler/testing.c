#include "testing.h"

#include "private_vm_access.h"
#include "ruby_helpers.h"
#include "template_name.h"
#include "text_repair.h"

#include <ruby/thread.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct raise_request {
  VALUE exception_class;
  int number;
  const char *text;
  int argument;
} raise_request;

static void *raise_without_gvl(void *data) {
  raise_request *request = data;
  if (NIL_P(request->exception_class)) {
    nf_grab_gvl_and_raise_syserr(request->number, "%s%d", request->text, request->argument);
  }
  nf_grab_gvl_and_raise(request->exception_class, "%s%d", request->text, request->argument);
}

static VALUE grab_and_raise(VALUE exception_class, int number, VALUE text, VALUE argument,
                            VALUE release_gvl) {
  raise_request request = {exception_class, number, StringValueCStr(text), NUM2INT(argument)};
  if (RTEST(release_gvl)) {
    rb_thread_call_without_gvl(raise_without_gvl, &request, NULL, NULL);
  } else {
    raise_without_gvl(&request);
  }
  return Qnil;
}

static VALUE grab_gvl_and_raise(VALUE self, VALUE exception_class, VALUE text, VALUE argument,
                                VALUE release_gvl) {
  (void)self;
  NF_ENFORCE_TYPE(text, T_STRING);
  return grab_and_raise(exception_class, 0, text, argument, release_gvl);
}

static VALUE grab_gvl_and_raise_syserr(VALUE self, VALUE number, VALUE text, VALUE argument,
                                       VALUE release_gvl) {
  (void)self;
  NF_ENFORCE_TYPE(text, T_STRING);
  return grab_and_raise(Qnil, NUM2INT(number), text, argument, release_gvl);
}

static VALUE main_ractor_p(VALUE self) {
  (void)self;
  return nf_vm_on_main_ractor() ? Qtrue : Qfalse;
}

static VALUE holding_the_gvl(VALUE self) {
  (void)self;
  return nf_vm_holds_gvl() ? Qtrue : Qfalse;
}

static void *ask_without_gvl(void *data) {
  *(bool *)data = nf_vm_holds_gvl();
  return NULL;
}

static VALUE holding_the_gvl_without_gvl(VALUE self) {
  (void)self;
  bool answer = true;
  rb_thread_call_without_gvl(ask_without_gvl, &answer, NULL, NULL);
  return answer ? Qtrue : Qfalse;
}

static void *ask_on_native_thread(void *data) { return ask_without_gvl(data); }

static VALUE holding_the_gvl_on_native_thread(VALUE self) {
  (void)self;
  bool answer = true;
  pthread_t thread;
  NF_ENFORCE_SUCCESS(pthread_create(&thread, NULL, ask_on_native_thread, &answer), "pthread_create");
  pthread_join(thread, NULL);
  return answer ? Qtrue : Qfalse;
}

static VALUE enforce_success(VALUE self, VALUE number) {
  (void)self;
  NF_ENFORCE_SUCCESS(NUM2INT(number), "enforce_success");
  return Qtrue;
}

// Native threads that know nothing of Ruby, and get SIGPROF: see that nothing happens.
static atomic_bool native_threads_stop;

static void *spin_and_wait(void *data) {
  (void)data;
  while (!atomic_load(&native_threads_stop)) usleep(200);
  return NULL;
}

typedef struct storm {
  int threads, signals;
} storm;

static void *send_signals_to_native_threads(void *data) {
  storm *request = data;
  pthread_t threads[16];
  int started = 0;
  atomic_store(&native_threads_stop, false);
  while (started < request->threads && started < 16 &&
         pthread_create(&threads[started], NULL, spin_and_wait, NULL) == 0) {
    started++;
  }
  for (int i = 0; started > 0 && i < request->signals; i++) pthread_kill(threads[i % started], SIGPROF);
  atomic_store(&native_threads_stop, true);
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
  return NULL;
}

static VALUE signal_native_threads(VALUE self, VALUE threads, VALUE signals) {
  (void)self;
  storm request = {NUM2INT(threads), NUM2INT(signals)};
  rb_thread_call_without_gvl(send_signals_to_native_threads, &request, NULL, NULL);
  return Qtrue;
}

static VALUE signal_thread(VALUE self, VALUE thread) {
  (void)self;
  syscall(SYS_tgkill, getpid(), nf_vm_thread_tid(nf_vm_thread_from(thread)), SIGPROF);
  return Qtrue;
}

// [name, path, line, native?] of each frame and the total count, straight from the VM; or nil without a Ruby
// stack.
static VALUE frames_of(VALUE self, VALUE thread, VALUE limit) {
  (void)self;
  int max = NUM2INT(limit), total;
  if (max < 1 || max > 100000) rb_raise(rb_eArgError, "limit out of range");
  VALUE buffer = rb_str_new(NULL, max * (long)sizeof(nf_vm_frame));
  nf_vm_frame *frames = (nf_vm_frame *)(void *)RSTRING_PTR(buffer);
  int count = nf_vm_stack_frames(nf_vm_thread_from(thread), frames, max, &total);
  if (count == NF_VM_NO_RUBY_STACK) return Qnil;
  VALUE result = rb_ary_new();
  for (int i = 0; i < count; i++) {
    VALUE frame[4] = {rb_utf8_str_new(frames[i].name, (long)frames[i].name_length),
                      rb_utf8_str_new(frames[i].file, (long)frames[i].file_length), INT2FIX(frames[i].line),
                      frames[i].native ? Qtrue : Qfalse};
    rb_ary_push(result, rb_ary_new_from_values(4, frame));
  }
  RB_GC_GUARD(buffer);
  return rb_ary_new_from_args(2, result, INT2FIX(total));
}

static VALUE repair_utf8(VALUE self, VALUE text) {
  (void)self;
  NF_ENFORCE_TYPE(text, T_STRING);
  size_t length = (size_t)RSTRING_LEN(text);
  VALUE room = rb_utf8_str_new(NULL, (long)NF_TEXT_REPAIRED_MAX(length));
  rb_str_set_len(room, (long)nf_text_repair(RSTRING_PTR(text), length, RSTRING_PTR(room)));
  RB_GC_GUARD(text);
  return rb_ary_new_from_args(2, nf_text_valid(RSTRING_PTR(text), length) ? Qtrue : Qfalse, room);
}

static VALUE template_name(VALUE self, VALUE name, VALUE file) {
  (void)self;
  NF_ENFORCE_TYPE(name, T_STRING);
  NF_ENFORCE_TYPE(file, T_STRING);
  return rb_str_subseq(name, 0,
                       (long)nf_template_name_length(RSTRING_PTR(name), (size_t)RSTRING_LEN(name),
                                                     RSTRING_PTR(file), (size_t)RSTRING_LEN(file)));
}

void nf_testing_define(VALUE native_extension) {
  VALUE testing = rb_define_module_under(native_extension, "Testing");
  rb_define_singleton_method(testing, "_native_grab_gvl_and_raise", grab_gvl_and_raise, 4);
  rb_define_singleton_method(testing, "_native_grab_gvl_and_raise_syserr", grab_gvl_and_raise_syserr, 4);
  rb_define_singleton_method(testing, "_native_ractor_main_p", main_ractor_p, 0);
  rb_define_singleton_method(testing, "_native_is_current_thread_holding_the_gvl", holding_the_gvl, 0);
  rb_define_singleton_method(testing, "_native_release_gvl_and_call_is_current_thread_holding_the_gvl",
                             holding_the_gvl_without_gvl, 0);
  rb_define_singleton_method(testing, "_native_is_native_thread_holding_the_gvl",
                             holding_the_gvl_on_native_thread, 0);
  rb_define_singleton_method(testing, "_native_enforce_success", enforce_success, 1);
  rb_define_singleton_method(testing, "_native_signal_native_threads", signal_native_threads, 2);
  rb_define_singleton_method(testing, "_native_signal_thread", signal_thread, 1);
  rb_define_singleton_method(testing, "_native_frames", frames_of, 2);
  rb_define_singleton_method(testing, "_native_repair_utf8", repair_utf8, 1);
  rb_define_singleton_method(testing, "_native_template_name", template_name, 2);
}
