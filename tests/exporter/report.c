#include "report.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFINE(f) __typeof__(f) *call_##f;
FUNCTIONS(DEFINE)
PROFILE_FUNCTIONS(DEFINE)

static void *library;
static ddog_CancellationToken *shared_token;

void share_token(void) { shared_token = call_ddog_CancellationToken_new(); }
bool cancel_shared_token(void) { return call_ddog_CancellationToken_cancel(shared_token); }

void unload_library(void) {
  if (dlclose(library) != 0) die("dlclose", dlerror());
}

void load_library(const char *path) {
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) die("dlopen", dlerror());
#define LOAD(f)                                                                                              \
  if (!(call_##f = (__typeof__(call_##f))dlsym(library, #f))) die("missing", #f);
  FUNCTIONS(LOAD)
#define LOAD_IF_THERE(f) call_##f = (__typeof__(call_##f))dlsym(library, #f);
  PROFILE_FUNCTIONS(LOAD_IF_THERE)
}

double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void print_error(const char *what, ddog_Error *error) {
  ddog_CharSlice text = call_ddog_Error_message(error);
  char line[8192];
  size_t used = 0;
  for (size_t i = 0; i < text.len && used + 8 < sizeof line; i++) {
    unsigned char c = (unsigned char)text.ptr[i];
    if (c < 0x20 || c == 0x7f || c == '\\')
      used += (size_t)sprintf(line + used, "\\x%02x", c);
    else
      line[used++] = (char)c;
  }
  printf("%s\t%.*s\n", what, (int)used, line);
  call_ddog_Error_drop(error);
}

static ddog_CharSlice slice(bytes b) { return (ddog_CharSlice){b.ptr, b.len}; }

static ddog_Vec_Tag make_tags(const bytes *items, size_t count) {
  ddog_Vec_Tag tags = call_ddog_Vec_Tag_new();
  for (size_t i = 0; i < count; i++) {
    const char *equals = memchr(items[i].ptr, '=', items[i].len);
    size_t key = equals ? (size_t)(equals - items[i].ptr) : items[i].len;
    size_t rest = equals ? items[i].len - key - 1 : 0;
    ddog_Vec_Tag_PushResult pushed =
        call_ddog_Vec_Tag_push(&tags, (ddog_CharSlice){items[i].ptr, key},
                               (ddog_CharSlice){items[i].ptr + key + (equals != NULL), rest});
    if (pushed.tag != DDOG_VEC_TAG_PUSH_RESULT_OK) print_error("tag_error", &pushed.err);
  }
  return tags;
}

/* Endpoint statistics only come out of a profile. */
static ddog_prof_EncodedProfile make_stats(const options *o) {
  if (!call_ddog_prof_Profile_new) die("missing", "the functions of profiles");
  ddog_prof_Profile_NewResult made =
      call_ddog_prof_Profile_new((ddog_prof_Slice_ValueType){NULL, 0}, NULL, NULL);
  if (made.tag != DDOG_PROF_PROFILE_NEW_RESULT_OK) die("Profile_new", "failed");
  for (size_t i = 0; i < o->stat_count; i++) {
    const char *equals = memchr(o->stats[i].ptr, '=', o->stats[i].len);
    if (!equals) die("name=count expected", o->stats[i].ptr);
    ddog_CharSlice name = {o->stats[i].ptr, (size_t)(equals - o->stats[i].ptr)};
    ddog_prof_Profile_Result added =
        call_ddog_prof_Profile_add_endpoint_count(&made.ok, name, strtoll(equals + 1, NULL, 10));
    if (added.tag != DDOG_PROF_PROFILE_RESULT_OK) print_error("stats_error", &added.err);
  }
  ddog_prof_Profile_SerializeResult encoded = call_ddog_prof_Profile_serialize(&made.ok, NULL, NULL, NULL);
  if (encoded.tag != DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK) die("Profile_serialize", "failed");
  call_ddog_prof_Profile_drop(&made.ok);
  return encoded.ok;
}

static ddog_prof_Exporter_NewResult make_exporter(const options *o, const ddog_Vec_Tag *tags) {
  ddog_Endpoint endpoint = o->agentless ? call_ddog_Endpoint_agentless(slice(o->site), slice(o->key))
                                        : call_ddog_Endpoint_agent(slice(o->url));
  return call_ddog_prof_Exporter_new(slice(o->name), slice(o->version), slice(o->family),
                                     o->null_tags ? NULL : tags, endpoint);
}

static ddog_prof_Exporter_Request_BuildResult build(const options *o, ddog_prof_Exporter *exporter,
                                                    const ddog_Vec_Tag *tags,
                                                    const ddog_prof_EncodedProfile *encoded) {
  ddog_CharSlice internal = slice(o->internal), info = slice(o->info);
  return call_ddog_prof_Exporter_Request_build(
      exporter, o->start, o->end, (ddog_prof_Exporter_Slice_File){o->compress, o->compress_count},
      (ddog_prof_Exporter_Slice_File){o->plain, o->plain_count}, o->null_request_tags ? NULL : tags,
      o->with_stats ? encoded->endpoints_stats : NULL, o->with_internal ? &internal : NULL,
      o->with_info ? &info : NULL, o->timeout_ms);
}

typedef struct canceller {
  const ddog_CancellationToken *token;
  long after_ms;
  double at_ms;
  bool first;
} canceller;

static void *cancel_later(void *argument) {
  canceller *c = argument;
  usleep((useconds_t)c->after_ms * 1000);
  c->at_ms = now_ms();
  c->first = call_ddog_CancellationToken_cancel(c->token);
  return NULL;
}

static bool send_and_print(const options *o, ddog_prof_Exporter *exporter,
                           ddog_prof_Exporter_Request **request) {
  bool later = o->cancel_after_ms >= 0;
  ddog_CancellationToken *token = o->token || o->cancel_first || later
                                      ? call_ddog_CancellationToken_new()
                                      : call_ddog_CancellationToken_clone(shared_token);
  /* Cancelled through a clone, as the Ruby profiler's interrupt may do. */
  ddog_CancellationToken *clone = token ? call_ddog_CancellationToken_clone(token) : NULL;
  canceller c = {.token = clone, .after_ms = o->cancel_after_ms};
  pthread_t thread;
  if (o->cancel_first && !call_ddog_CancellationToken_cancel(clone)) die("cancel", "said false at first");
  double begin = now_ms();
  if (later) pthread_create(&thread, NULL, cancel_later, &c);
  if (!o->quiet) printf("sending\n");
  ddog_prof_Exporter_SendResult sent = call_ddog_prof_Exporter_send(exporter, request, token);
  double end = now_ms();
  if (later) pthread_join(thread, NULL);
  if (*request) die("send", "left the request in place");
  bool answered = sent.tag == DDOG_PROF_EXPORTER_SEND_RESULT_HTTP_RESPONSE;
  if (answered) {
    if (!o->quiet) printf("status\t%.1f\t%u\n", end - begin, sent.http_response.code);
  } else {
    char what[64];
    snprintf(what, sizeof what, "send_error\t%.1f", end - begin);
    print_error(what, &sent.err);
    if (later) printf("woken\t%.1f\n", end - c.at_ms);
  }
  if (token) call_ddog_CancellationToken_drop(token);
  if (clone) call_ddog_CancellationToken_drop(clone);
  return answered;
}

bool report(const options *o) {
  static ddog_prof_Exporter *kept; /* --reuse: one exporter for all reports of the main thread */
  ddog_prof_Exporter *exporter = o->reuse ? kept : NULL;
  if (!exporter) {
    ddog_Vec_Tag tags = make_tags(o->tags, o->tag_count);
    ddog_prof_Exporter_NewResult made = make_exporter(o, &tags);
    call_ddog_Vec_Tag_drop(tags);
    if (made.tag != DDOG_PROF_EXPORTER_NEW_RESULT_OK) {
      print_error("new_error", &made.err);
      return false;
    }
    exporter = made.ok;
    if (o->reuse) kept = exporter;
  }
  ddog_Vec_Tag request_tags = make_tags(o->request_tags, o->request_tag_count);
  ddog_prof_EncodedProfile encoded = {0};
  if (o->with_stats) encoded = make_stats(o);
  ddog_prof_Exporter_Request_BuildResult built = build(o, exporter, &request_tags, &encoded);
  call_ddog_Vec_Tag_drop(request_tags);
  if (o->with_stats) call_ddog_prof_EncodedProfile_drop(&encoded);
  bool answered = false;
  if (built.tag == DDOG_PROF_EXPORTER_REQUEST_BUILD_RESULT_OK)
    answered = send_and_print(o, exporter, &built.ok);
  else
    print_error("build_error", &built.err);
  if (!o->reuse) call_ddog_prof_Exporter_drop(exporter);
  return answered;
}

char report_quietly(const options *o, void (*enter)(void), void (*leave)(void)) {
  enter();
  ddog_Vec_Tag tags = call_ddog_Vec_Tag_new();
  bool tagged = true;
  for (size_t i = 0; i < o->tag_count && tagged; i++) {
    ddog_CharSlice value = slice(o->tags[i]);
    ddog_Vec_Tag_PushResult pushed = call_ddog_Vec_Tag_push(&tags, (ddog_CharSlice){"tag", 3}, value);
    tagged = pushed.tag == DDOG_VEC_TAG_PUSH_RESULT_OK;
    if (!tagged) call_ddog_Error_drop(&pushed.err);
  }
  if (!tagged) {
    call_ddog_Vec_Tag_drop(tags);
    leave();
    return 't';
  }
  ddog_CancellationToken *token = o->token ? call_ddog_CancellationToken_new() : NULL;
  ddog_prof_Exporter_NewResult made = make_exporter(o, &tags);
  char outcome = 'n';
  if (made.tag == DDOG_PROF_EXPORTER_NEW_RESULT_OK) {
    outcome = 'b';
    ddog_prof_Exporter_Request_BuildResult built = build(o, made.ok, &tags, NULL);
    if (built.tag == DDOG_PROF_EXPORTER_REQUEST_BUILD_RESULT_OK) {
      ddog_prof_Exporter_SendResult sent = call_ddog_prof_Exporter_send(made.ok, &built.ok, token);
      outcome = sent.tag == DDOG_PROF_EXPORTER_SEND_RESULT_HTTP_RESPONSE ? 'o' : 's';
      if (outcome == 's') call_ddog_Error_drop(&sent.err);
    } else {
      call_ddog_Error_drop(&built.err);
    }
    call_ddog_prof_Exporter_drop(made.ok);
  } else {
    call_ddog_Error_drop(&made.err);
  }
  if (token) call_ddog_CancellationToken_drop(token);
  call_ddog_Vec_Tag_drop(tags);
  leave();
  return outcome;
}
