#define _GNU_SOURCE
#include "tests/bench/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/measure.h"

struct library library;

static bool has_exporter;

void library_open(const char *path) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) DIE("%s", dlerror());
  has_exporter = true;
#define X(f)                                                                                                 \
  if (!(library.f = (__typeof__(library.f))dlsym(handle, #f))) DIE("%s lacks %s", path, #f);
  LIBRARY_PROFILE_FUNCTIONS(X)
#undef X
#define X(f)                                                                                                 \
  if (!(library.f = (__typeof__(library.f))dlsym(handle, #f))) has_exporter = false;
  LIBRARY_EXPORTER_FUNCTIONS(X)
#undef X
  library.serialize_as = (__typeof__(library.serialize_as))dlsym(handle, "ddog_prof_Profile_serialize_as");
}

enum question { CAN_EXPORT, HAS_CODECS };

/* The library must not be in this process, from which those that measure are forked. */
static bool ask(const char *path, enum question question) {
  int status;
  pid_t pid = fork();
  if (pid < 0) DIE("cannot fork");
  if (pid == 0) {
    library_open(path);
    _exit(question == CAN_EXPORT ? has_exporter : library.serialize_as != NULL);
  }
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

bool library_can_export(const char *path) { return ask(path, CAN_EXPORT); }

bool library_has_codecs(const char *path) { return ask(path, HAS_CODECS); }

void library_fail(const char *what, ddog_Error *error) {
  ddog_CharSlice m = library.ddog_Error_message(error);
  DIE("%s: %.*s", what, (int)m.len, m.ptr);
}

ddog_prof_Profile new_profile(void) {
  static const ddog_prof_ValueType types[N_VALUES] = {
      {LITERAL("cpu-time"), LITERAL("nanoseconds")},    {LITERAL("cpu-samples"), LITERAL("count")},
      {LITERAL("wall-time"), LITERAL("nanoseconds")},   {LITERAL("alloc-samples"), LITERAL("count")},
      {LITERAL("heap-live-samples"), LITERAL("count")}, {LITERAL("heap-live-size"), LITERAL("bytes")},
      {LITERAL("timeline"), LITERAL("nanoseconds")},
  };
  static const ddog_Timespec start = {1700000000, 0};
  ddog_prof_Profile_NewResult r =
      library.ddog_prof_Profile_new((ddog_prof_Slice_ValueType){types, N_VALUES}, NULL, &start);
  if (r.tag != DDOG_PROF_PROFILE_NEW_RESULT_OK) library_fail("Profile_new", &r.err);
  return r.ok;
}

void builder_init(builder *b, const workload *w) {
  b->locations = calloc(w->max_depth, sizeof *b->locations);
  if (!b->locations) DIE("out of memory");
}
