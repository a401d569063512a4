/* A library with the v6 interface, opened by path, and samples for it, built as dd-trace-rb builds them. */
#ifndef NF_BENCH_LIBRARY_H
#define NF_BENCH_LIBRARY_H

#include <datadog/profiling.h>

#include "tests/bench/workload.h"

#define LIBRARY_PROFILE_FUNCTIONS(X)                                                                         \
  X(ddog_prof_Profile_new)                                                                                   \
  X(ddog_prof_Profile_drop)                                                                                  \
  X(ddog_prof_Profile_add)                                                                                   \
  X(ddog_prof_Profile_serialize)                                                                             \
  X(ddog_prof_Profile_reset)                                                                                 \
  X(ddog_prof_EncodedProfile_drop)                                                                           \
  X(ddog_Error_message)                                                                                      \
  X(ddog_Error_drop)

#define LIBRARY_EXPORTER_FUNCTIONS(X)                                                                        \
  X(ddog_Endpoint_agent)                                                                                     \
  X(ddog_prof_Exporter_new)                                                                                  \
  X(ddog_prof_Exporter_drop)                                                                                 \
  X(ddog_prof_Exporter_Request_build)                                                                        \
  X(ddog_prof_Exporter_send)                                                                                 \
  X(ddog_Vec_Tag_new)                                                                                        \
  X(ddog_Vec_Tag_push)                                                                                       \
  X(ddog_Vec_Tag_drop)                                                                                       \
  X(ddog_CancellationToken_new)                                                                              \
  X(ddog_CancellationToken_drop)

/* The functions of the library that is open. */
struct library {
#define X(f) __typeof__(f) *f;
  LIBRARY_PROFILE_FUNCTIONS(X)
  LIBRARY_EXPORTER_FUNCTIONS(X)                             /* NULL if one is lacking */
  __typeof__(ddog_prof_Profile_serialize_as) *serialize_as; /* beyond v6; may be NULL */
#undef X
};
extern struct library library;

/* Ends the program when the library cannot be used. */
void library_open(const char *path);

/* Whether a library has everything that exporting needs, or serialize_as; asked in a process of its own. */
bool library_can_export(const char *path);
bool library_has_codecs(const char *path);

/* Ends the program with the error's text. */
void library_fail(const char *what, ddog_Error *error) __attribute__((noreturn));

static inline ddog_CharSlice slice_of(text t) { return (ddog_CharSlice){t.ptr, t.len}; }

ddog_prof_Profile new_profile(void);

/* One sample: labels in it, locations in a buffer that is used again and again. */
typedef struct builder {
  ddog_prof_Location *locations; /* room for the deepest stack */
  ddog_prof_Label labels[5];
  int64_t values[N_VALUES];
  ddog_prof_Sample sample;
} builder;

void builder_init(builder *b, const workload *w);

#define LITERAL(string)                                                                                      \
  { "" string, sizeof(string) - 1 }

static inline void builder_fill(builder *b, const workload *w, const addition *a) {
  const stack *s = &w->stacks[a->stack];
  for (uint32_t i = 0; i < s->depth; i++) {
    const function *f = &w->functions[s->frames[i].function];
    b->locations[i] = (ddog_prof_Location){
        .function = {.name = slice_of(f->name), .filename = slice_of(f->file)},
        .line = s->frames[i].line,
    };
  }
  size_t n = 0;
  if (w->spec.heap) {
    b->labels[n++] =
        (ddog_prof_Label){.key = LITERAL("allocation class"), .str = slice_of(w->classes[a->class_name])};
    b->labels[n++] = (ddog_prof_Label){.key = LITERAL("gc gen age"), .num = a->age};
  } else {
    b->labels[n++] =
        (ddog_prof_Label){.key = LITERAL("thread id"), .str = slice_of(w->thread_ids[a->thread])};
    b->labels[n++] =
        (ddog_prof_Label){.key = LITERAL("thread name"), .str = slice_of(w->thread_names[a->thread])};
    b->labels[n++] = (ddog_prof_Label){.key = LITERAL("local root span id"), .num = a->root_span};
    b->labels[n++] = (ddog_prof_Label){.key = LITERAL("span id"), .num = a->span};
    b->labels[n++] = (ddog_prof_Label){.key = LITERAL("state"), .str = slice_of(w->states[a->state])};
  }
  workload_values(w, a, b->values);
  b->sample = (ddog_prof_Sample){{b->locations, s->depth}, {b->values, N_VALUES}, {b->labels, n}};
}

#endif
