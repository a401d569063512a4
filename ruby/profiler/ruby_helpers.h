#ifndef NF_RUBY_HELPERS_H
#define NF_RUBY_HELPERS_H

#include <ruby.h>

#include <datadog/profiling.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Why something that must not raise went wrong: filled in by the function that knows, passed up unchanged,
// and turned into an exception by whoever may raise.
typedef struct nf_failure {
  char text[256];
} nf_failure;

// Always returns false, so that callers can `return nf_failure_set(...)`.
__attribute__((format(printf, 2, 3))) static inline bool nf_failure_set(nf_failure *failure,
                                                                        const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(failure->text, sizeof(failure->text), format, arguments);
  va_end(arguments);
  return false;
}

// Takes the error over: it is dropped.
bool nf_failure_take(nf_failure *failure, const char *what, ddog_Error *error);

// TypeErrors that show the value, its name in the source, what was expected, and where.
#define NF_ENFORCE_TYPE(value, type)                                                                         \
  nf_enforce_type((value), (type), #value, #type, __FILE__, __LINE__, __func__)
#define NF_ENFORCE_BOOLEAN(value) nf_enforce_boolean((value), #value, __FILE__, __LINE__, __func__)
#define NF_ENFORCE_THREAD(value) nf_enforce_thread((value), #value, __FILE__, __LINE__, __func__)

void nf_enforce_type(VALUE value, enum ruby_value_type type, const char *name, const char *type_name,
                     const char *file, int line, const char *function);
bool nf_enforce_boolean(VALUE value, const char *name, const char *file, int line, const char *function);
void nf_enforce_thread(VALUE value, const char *name, const char *file, int line, const char *function);

// For code that runs without the GVL: takes it and raises; the text is cut to 255 bytes. `_syserr` raises the
// Errno class of that number. Called with the GVL they raise a RuntimeError that says so, as that is a bug.
__attribute__((format(printf, 2, 3))) _Noreturn void nf_grab_gvl_and_raise(VALUE exception_class,
                                                                           const char *format, ...);
__attribute__((format(printf, 2, 3))) _Noreturn void nf_grab_gvl_and_raise_syserr(int number,
                                                                                  const char *format, ...);

// For the results of system calls and pthread functions (0 or an errno), with the GVL held.
#define NF_ENFORCE_SUCCESS(result, what) nf_enforce_success((result), (what))
void nf_enforce_success(int result, const char *what);

// A slice that borrows the bytes of a Ruby String (or of a literal).
static inline ddog_CharSlice nf_slice_of(VALUE string) {
  return (ddog_CharSlice){.ptr = RSTRING_PTR(string), .len = (uintptr_t)RSTRING_LEN(string)};
}
#define NF_SLICE(literal) ((ddog_CharSlice){.ptr = "" literal, .len = sizeof("" literal) - 1})

// A copy, to be freed; NULL if memory is out. Not strdup: that takes the memory where libc finds malloc, which is another
// one than ours where the program brings its own (jemalloc), as we are loaded with RTLD_DEEPBIND.
static inline char *nf_copy_of_text(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  return copy == NULL ? NULL : memcpy(copy, text, size);
}

static inline ddog_CharSlice nf_slice_of_text(const char *text, size_t length) {
  return (ddog_CharSlice){.ptr = text, .len = length};
}

#endif
