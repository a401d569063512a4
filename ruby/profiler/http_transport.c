#include "http_transport.h"

#include "ruby_helpers.h"

#include <ruby/thread.h>

#include <string.h>

// Of the reports: the intake knows Ruby's by these.
#define LIBRARY_NAME "dd-trace-rb"
#define LIBRARY_FAMILY "ruby"

static ID id_agent, id_agentless;
static VALUE version; // of the gem, a frozen String

// --- what was asked for: checked Ruby objects, nothing allocated by us ---

typedef struct where_to {
  VALUE url;           // of an agent; or nil, and then
  VALUE site, api_key; // of an intake
} where_to;

// Copies, as they are read without the GVL, when others may change the originals.
static VALUE frozen_text(VALUE value) {
  NF_ENFORCE_TYPE(value, T_STRING);
  return rb_str_new_frozen(value);
}

// [:agent, url] or [:agentless, site, api_key]
static where_to where_to_from(VALUE configuration) {
  NF_ENFORCE_TYPE(configuration, T_ARRAY);
  VALUE mode = rb_ary_entry(configuration, 0);
  NF_ENFORCE_TYPE(mode, T_SYMBOL);
  if (rb_sym2id(mode) == id_agent) {
    return (where_to){.url = frozen_text(rb_ary_entry(configuration, 1)), .site = Qnil, .api_key = Qnil};
  }
  if (rb_sym2id(mode) == id_agentless) {
    VALUE api_key = rb_ary_entry(configuration, 2);
    if (!RB_TYPE_P(api_key, T_STRING)) rb_raise(rb_eTypeError, "the API key is no String"); // and not shown
    return (where_to){.url = Qnil,
                      .site = frozen_text(rb_ary_entry(configuration, 1)),
                      .api_key = frozen_text(api_key)};
  }
  rb_raise(rb_eArgError, "reports go to an :agent or :agentless, not %+" PRIsVALUE, mode);
}

static ddog_Endpoint endpoint_of(const where_to *to) {
  if (!NIL_P(to->url)) return ddog_Endpoint_agent(nf_slice_of(to->url));
  return ddog_Endpoint_agentless(nf_slice_of(to->site), nf_slice_of(to->api_key));
}

static ddog_prof_Exporter_NewResult exporter_for(const where_to *to, const ddog_Vec_Tag *tags) {
  return ddog_prof_Exporter_new(NF_SLICE(LIBRARY_NAME), nf_slice_of(version), NF_SLICE(LIBRARY_FAMILY), tags,
                                endpoint_of(to));
}

// --- errors as Ruby Strings ---

static VALUE text_of(VALUE error) {
  ddog_CharSlice text = ddog_Error_message((const ddog_Error *)error);
  VALUE said = rb_utf8_str_new(text.ptr, (long)text.len), scrubbed = rb_str_scrub(said, Qnil);
  return NIL_P(scrubbed) ? said : scrubbed; // nil: there was nothing to scrub
}

static VALUE drop_error(VALUE error) {
  ddog_Error_drop((ddog_Error *)error);
  return Qnil;
}

static VALUE take_error(ddog_Error *error) {
  return rb_ensure(text_of, (VALUE)error, drop_error, (VALUE)error);
}

static VALUE pair(const char *outcome, VALUE detail) {
  return rb_ary_new_from_args(2, ID2SYM(rb_intern(outcome)), detail);
}

// _native_validate_exporter(configuration) -> [:ok, nil] or [:error, why]
static VALUE native_validate_exporter(VALUE self, VALUE configuration) {
  (void)self;
  where_to to = where_to_from(configuration);
  ddog_prof_Exporter_NewResult made = exporter_for(&to, NULL);
  RB_GC_GUARD(to.url);
  RB_GC_GUARD(to.site);
  RB_GC_GUARD(to.api_key);
  if (made.tag == DDOG_PROF_EXPORTER_NEW_RESULT_ERR) return pair("error", take_error(&made.err));
  ddog_prof_Exporter_drop(made.ok);
  return pair("ok", Qnil);
}

// --- one export ---

typedef struct export {
  // From Ruby.
  where_to to;
  uint64_t timeout_ms;
  ddog_Timespec start, finish;
  bool compress_pprof;
  VALUE pprof_name, pprof, provenance_name, provenance, tags, internal_metadata, info;
  // Ours, from here on: freed by `clean_up`, however it ends.
  ddog_Vec_Tag process_tags;
  ddog_CancellationToken *token;
  ddog_prof_Exporter *exporter;
  ddog_prof_Exporter_Request *request;
  bool ran, sent;
  ddog_Error error; // empty, or why it was not sent
  ddog_HttpStatus status;
} export;

static ddog_prof_Exporter_File file_of(VALUE name, VALUE bytes) {
  return (ddog_prof_Exporter_File){
      .name = nf_slice_of(name),
      .file = {.ptr = (const uint8_t *)RSTRING_PTR(bytes), .len = (uintptr_t)RSTRING_LEN(bytes)}};
}

static bool build(export *e) {
  ddog_prof_Exporter_File pprof = file_of(e->pprof_name, e->pprof), compressed[2], unmodified[1];
  uintptr_t to_compress = 0, as_they_are = 0;
  if (!NIL_P(e->provenance)) compressed[to_compress++] = file_of(e->provenance_name, e->provenance);
  if (e->compress_pprof) {
    compressed[to_compress++] = pprof;
  } else {
    unmodified[as_they_are++] = pprof;
  }
  ddog_CharSlice internal_metadata = nf_slice_of(e->internal_metadata), info = nf_slice_of(e->info);
  ddog_prof_Exporter_Request_BuildResult built = ddog_prof_Exporter_Request_build(
      e->exporter, e->start, e->finish,
      (ddog_prof_Exporter_Slice_File){.ptr = compressed, .len = to_compress},
      (ddog_prof_Exporter_Slice_File){.ptr = unmodified, .len = as_they_are}, NULL, NULL, &internal_metadata,
      &info, e->timeout_ms);
  if (built.tag == DDOG_PROF_EXPORTER_REQUEST_BUILD_RESULT_ERR) {
    e->error = built.err;
    return false;
  }
  e->request = built.ok;
  return true;
}

// Without the GVL. The exporter is made anew for each report, so that no fork finds one half used.
static void *build_and_send(void *data) {
  export *e = data;
  e->ran = true;
  ddog_prof_Exporter_NewResult made = exporter_for(&e->to, &e->process_tags);
  if (made.tag == DDOG_PROF_EXPORTER_NEW_RESULT_ERR) {
    e->error = made.err;
    return NULL;
  }
  e->exporter = made.ok;
  if (!build(e)) return NULL;
  ddog_prof_Exporter_SendResult result = ddog_prof_Exporter_send(e->exporter, &e->request, e->token);
  if (result.tag == DDOG_PROF_EXPORTER_SEND_RESULT_ERR) {
    e->error = result.err;
    return NULL;
  }
  e->sent = true;
  e->status = result.http_response;
  return NULL;
}

static void interrupt(void *data) { ddog_CancellationToken_cancel(((export *)data)->token); }

// Tags that cannot be sent are left out: the report is worth more. Returns why, for each.
static VALUE push_tags(export *e) {
  VALUE refused = rb_ary_new();
  for (long i = 0; i < RARRAY_LEN(e->tags); i++) {
    VALUE tag = rb_ary_entry(e->tags, i);
    ddog_Vec_Tag_PushResult result = ddog_Vec_Tag_push(
        &e->process_tags, nf_slice_of(rb_ary_entry(tag, 0)), nf_slice_of(rb_ary_entry(tag, 1)));
    if (result.tag == DDOG_VEC_TAG_PUSH_RESULT_ERR) rb_ary_push(refused, take_error(&result.err));
  }
  return refused;
}

// [:ok, status, refused tags] or [:error, why, refused tags]
static VALUE perform(VALUE data) {
  export *e = (export *)data;
  VALUE refused = push_tags(e);
  e->token = ddog_CancellationToken_new();
  if (!e->token) rb_memerror();
  while (!e->ran) {
    rb_thread_call_without_gvl2(build_and_send, e, interrupt, e); // does not run if an interrupt is pending
    if (!e->ran) rb_thread_check_ints();
  }
  VALUE outcome = e->sent ? pair("ok", UINT2NUM(e->status.code)) : pair("error", text_of((VALUE)&e->error));
  return rb_ary_push(outcome, refused);
}

static VALUE clean_up(VALUE data) {
  export *e = (export *)data;
  ddog_prof_Exporter_Request_drop(&e->request);
  ddog_prof_Exporter_drop(e->exporter);
  ddog_CancellationToken_drop(e->token);
  ddog_Vec_Tag_drop(e->process_tags);
  ddog_Error_drop(&e->error);
  return Qnil;
}

static ddog_Timespec time_from(VALUE seconds, VALUE nanoseconds) {
  return (ddog_Timespec){.seconds = NUM2LL(seconds), .nanoseconds = NUM2UINT(nanoseconds)};
}

// [[name, value], …], each of them a String that cannot change any more.
static VALUE tags_from(VALUE tags) {
  NF_ENFORCE_TYPE(tags, T_ARRAY);
  VALUE copy = rb_ary_new_capa(RARRAY_LEN(tags));
  for (long i = 0; i < RARRAY_LEN(tags); i++) {
    VALUE tag = rb_ary_entry(tags, i);
    NF_ENFORCE_TYPE(tag, T_ARRAY);
    rb_ary_push(copy, rb_ary_new_from_args(2, frozen_text(rb_ary_entry(tag, 0)),
                                           frozen_text(rb_ary_entry(tag, 1))));
  }
  return copy;
}

// _native_do_export(configuration, timeout_ms, start seconds, start nanoseconds, finish seconds, finish nanoseconds,
//                   pprof name, pprof, compress the pprof?, provenance name, provenance or nil, tags,
//                   internal metadata, info)
static VALUE native_do_export(VALUE self, VALUE configuration, VALUE timeout_ms, VALUE start_s, VALUE start_ns,
                              VALUE finish_s, VALUE finish_ns, VALUE pprof_name, VALUE pprof,
                              VALUE compress_pprof, VALUE provenance_name, VALUE provenance, VALUE tags,
                              VALUE internal_metadata, VALUE info) {
  (void)self;
  export e = {
      .to = where_to_from(configuration),
      .timeout_ms = NUM2ULL(timeout_ms),
      .start = time_from(start_s, start_ns),
      .finish = time_from(finish_s, finish_ns),
      .compress_pprof = NF_ENFORCE_BOOLEAN(compress_pprof),
      .pprof_name = frozen_text(pprof_name),
      .pprof = frozen_text(pprof),
      .provenance_name = frozen_text(provenance_name),
      .provenance = NIL_P(provenance) ? Qnil : frozen_text(provenance),
      .tags = tags_from(tags),
      .internal_metadata = frozen_text(internal_metadata),
      .info = frozen_text(info),
      .process_tags = ddog_Vec_Tag_new(),
  };
  return rb_ensure(perform, (VALUE)&e, clean_up, (VALUE)&e);
}

void nf_http_transport_define(VALUE profiling) {
  id_agent = rb_intern("agent");
  id_agentless = rb_intern("agentless");
  version = rb_str_new_frozen(rb_const_get(profiling, rb_intern("VERSION")));
  rb_gc_register_mark_object(version);
  VALUE transport = rb_define_class_under(profiling, "HttpTransport", rb_cObject);
  rb_define_singleton_method(transport, "_native_validate_exporter", native_validate_exporter, 1);
  rb_define_singleton_method(transport, "_native_do_export", native_do_export, 14);
}
