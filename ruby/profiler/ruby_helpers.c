#include "ruby_helpers.h"

#include <ruby/thread.h>

#include <errno.h>
#include <string.h>

int ruby_thread_has_gvl_p(void); // exported by Ruby, in no public header

bool nf_failure_take(nf_failure *failure, const char *what, ddog_Error *error) {
  ddog_CharSlice message = ddog_Error_message(error);
  nf_failure_set(failure, "%s: %.*s", what, (int)(message.len < 200 ? message.len : 200), message.ptr);
  ddog_Error_drop(error);
  return false;
}

static VALUE inspect_failed(VALUE value, VALUE error) {
  (void)error;
  return rb_any_to_s(value);
}

static _Noreturn void raise_type_error(VALUE value, const char *name, const char *expected, const char *file,
                                       int line, const char *function) {
  // Not protected from everything: what other threads send meanwhile is not ours to catch.
  VALUE shown = rb_rescue2(rb_inspect, value, inspect_failed, value, rb_eStandardError, (VALUE)0);
  rb_raise(rb_eTypeError, "wrong argument %" PRIsVALUE " for '%s' (expected %s) at %s:%d:in `%s'", shown,
           name, expected, file, line, function);
}

void nf_enforce_type(VALUE value, enum ruby_value_type type, const char *name, const char *type_name,
                     const char *file, int line, const char *function) {
  if (RB_TYPE_P(value, type)) return;
  raise_type_error(value, name, type_name, file, line, function);
}

bool nf_enforce_boolean(VALUE value, const char *name, const char *file, int line, const char *function) {
  if (value != Qtrue && value != Qfalse) raise_type_error(value, name, "true or false", file, line, function);
  return value == Qtrue;
}

void nf_enforce_thread(VALUE value, const char *name, const char *file, int line, const char *function) {
  if (!RTEST(rb_obj_is_kind_of(value, rb_cThread)))
    raise_type_error(value, name, "Thread", file, line, function);
}

void nf_enforce_success(int result, const char *what) {
  if (result != 0) rb_syserr_fail(result, what);
}

typedef struct raise_request {
  VALUE exception_class; // Qnil: raise by number
  int number;
  char text[256];
} raise_request;

static void *raise_with_gvl(void *data) {
  raise_request *request = data;
  if (NIL_P(request->exception_class)) rb_syserr_fail(request->number, request->text);
  rb_raise(request->exception_class, "%s", request->text);
}

static _Noreturn void grab_and_raise(raise_request *request) {
  if (ruby_thread_has_gvl_p()) {
    rb_raise(rb_eRuntimeError, "grab_gvl_and_raise called by a thread that holds the global VM lock: %s",
             request->text);
  }
  rb_thread_call_with_gvl(raise_with_gvl, request);
  rb_bug(
      "datadog_profiling_native_extension: an exception was not raised"); // the line above does not come back
}

void nf_grab_gvl_and_raise(VALUE exception_class, const char *format, ...) {
  raise_request request = {.exception_class = exception_class};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(request.text, sizeof(request.text), format, arguments);
  va_end(arguments);
  grab_and_raise(&request);
}

void nf_grab_gvl_and_raise_syserr(int number, const char *format, ...) {
  raise_request request = {.exception_class = Qnil, .number = number};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(request.text, sizeof(request.text), format, arguments);
  va_end(arguments);
  grab_and_raise(&request);
}
