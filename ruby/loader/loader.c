// Datadog::Profiling::Loader: opens the profiler's own extension so that neither side sees the other's
// symbols. `require` opens extensions with a global scope, so any two libraries with a function of the same
// name would meet.

#include <ruby.h>

#include <dlfcn.h>

#ifndef RTLD_DEEPBIND
#define RTLD_DEEPBIND 0
#endif

// RTLD_DEEPBIND makes the library prefer its own symbols over those of the process. Sanitizers need the
// opposite (their allocators must win), and end the process of whoever opens anything with this flag; they
// may be there for the sake of the program, without us having been built with one.
static int open_flags(void) {
  static const char *const sanitizers[] = {"__asan_init", "__hwasan_init", "__msan_init",
                                           "__tsan_init", "__lsan_init",   "__ubsan_default_options"};
  int flags = RTLD_LAZY | RTLD_LOCAL;
  for (size_t i = 0; i < sizeof(sanitizers) / sizeof(sanitizers[0]); i++) {
    if (dlsym(RTLD_DEFAULT, sanitizers[i]) != NULL) return flags;
  }
  return flags | RTLD_DEEPBIND;
}

static VALUE answer(const char *status, VALUE text) {
  return rb_ary_new_from_args(2, ID2SYM(rb_intern(status)), text);
}

static VALUE last_error(void) {
  const char *text = dlerror();
  return answer("error", text ? rb_str_new_cstr(text) : Qnil);
}

static VALUE close_and_answer(void *handle, VALUE result) {
  dlclose(handle);
  return result;
}

// A library that brings a Ruby of its own would work on that one's (empty) VM. A statically linked Ruby is in
// no library that could be found through the handle: then there is only one.
static int linked_to_another_ruby(void *handle) {
  void *theirs = dlsym(handle, "ruby_xmalloc");
  return theirs != NULL && theirs != __extension__(void *) ruby_xmalloc;
}

// [:ok, nil] or [:error, why]. What the library's init function raises is passed on.
static VALUE native_load(VALUE self, VALUE path, VALUE init_name) {
  (void)self;
  Check_Type(path, T_STRING);
  Check_Type(init_name, T_STRING);
  const char *file = StringValueCStr(path), *name = StringValueCStr(init_name);

  int flags = open_flags();
  dlerror(); // forget older ones
  void *handle = dlopen(file, flags);
  if (handle == NULL) return last_error();
  if (linked_to_another_ruby(handle)) {
    return close_and_answer(
        handle,
        answer("error",
               rb_sprintf("%" PRIsVALUE " is linked to a different Ruby than the one that loads it", path)));
  }
  dlerror();
  void (*init)(void);
  *(void **)&init = dlsym(handle, name);
  if (init == NULL) return close_and_answer(handle, last_error());
  init();
  return answer("ok", Qnil);
}

__attribute__((visibility("default"))) void Init_datadog_profiling_loader(void) {
  VALUE loader =
      rb_define_module_under(rb_define_module_under(rb_define_module("Datadog"), "Profiling"), "Loader");
  rb_define_singleton_method(loader, "_native_load", native_load, 2);
}
