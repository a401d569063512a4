/* Datadog::Profiling::FolderUploader._native_upload: sends the reports of a folder. The work is the library's; it
 * is done without the GVL, and cut short when Ruby wants the thread back. */
#include <datadog/profiling.h>

#include <ruby.h>
#include <ruby/thread.h>

typedef struct upload {
  ddog_CharSlice folder;
  ddog_Endpoint endpoint;
  uint64_t timeout_ms;
  ddog_CancellationToken *token;
  bool ran;
  ddog_prof_Folder_UploadCounts counts;
  ddog_prof_Profile_Result result;
} upload;

static void *run(void *data) {
  upload *u = data;
  u->ran = true;
  u->result = ddog_prof_Folder_upload(u->folder, u->endpoint, u->timeout_ms, u->token, &u->counts);
  return NULL;
}

static void interrupt(void *data) { ddog_CancellationToken_cancel(((upload *)data)->token); }

static VALUE translate(VALUE data) {
  upload *u = (upload *)data;
  VALUE why = Qnil;
  if (u->result.tag == DDOG_PROF_PROFILE_RESULT_ERR) {
    ddog_CharSlice text = ddog_Error_message(&u->result.err);
    VALUE said = rb_utf8_str_new(text.ptr, (long)text.len), scrubbed = rb_str_scrub(said, Qnil);
    why = NIL_P(scrubbed) ? said : scrubbed; /* nil: there was nothing to scrub */
  }
  const ddog_prof_Folder_UploadCounts *c = &u->counts;
  return rb_ary_new_from_args(6, why, ULL2NUM(c->accepted), ULL2NUM(c->rejected), ULL2NUM(c->damaged),
                              ULL2NUM(c->left), UINT2NUM(c->last_rejection.code));
}

static VALUE drop_error(VALUE data) {
  upload *u = (upload *)data;
  if (u->result.tag == DDOG_PROF_PROFILE_RESULT_ERR) ddog_Error_drop(&u->result.err);
  return Qnil;
}

static ddog_CharSlice slice(VALUE string) {
  return (ddog_CharSlice){.ptr = RSTRING_PTR(string), .len = (uintptr_t)RSTRING_LEN(string)};
}

/* _native_upload(folder, agent_url or nil, site, api_key, timeout_ms)
 *   -> [why it ended early or nil, accepted, rejected, damaged, left, status of the last rejection] */
static VALUE native_upload(VALUE self, VALUE folder, VALUE agent, VALUE site, VALUE api_key,
                           VALUE timeout_ms) {
  (void)self;
  Check_Type(folder, T_STRING);
  upload u = {.timeout_ms = NUM2ULL(timeout_ms)};
  if (NIL_P(agent)) {
    Check_Type(site, T_STRING);
    Check_Type(api_key, T_STRING);
  } else {
    Check_Type(agent, T_STRING);
  }
  /* The strings are read without the GVL: copies that nobody else can change. */
  folder = rb_str_new_frozen(folder);
  if (NIL_P(agent)) {
    site = rb_str_new_frozen(site);
    api_key = rb_str_new_frozen(api_key);
    u.endpoint = ddog_Endpoint_agentless(slice(site), slice(api_key));
  } else {
    agent = rb_str_new_frozen(agent);
    u.endpoint = ddog_Endpoint_agent(slice(agent));
  }
  u.folder = slice(folder);
  u.token = ddog_CancellationToken_new();
  if (!u.token) rb_raise(rb_eNoMemError, "failed to allocate memory");
  rb_thread_call_without_gvl2(run, &u, interrupt, &u); /* the one that raises nothing */
  ddog_CancellationToken_drop(u.token);
  if (!u.ran) {
    rb_thread_check_ints();
    return rb_ary_new_from_args(6, rb_utf8_str_new_cstr("interrupted"), INT2FIX(0), INT2FIX(0), INT2FIX(0),
                                INT2FIX(0), INT2FIX(0));
  }
  VALUE result = rb_ensure(translate, (VALUE)&u, drop_error, (VALUE)&u);
  RB_GC_GUARD(folder);
  RB_GC_GUARD(agent);
  RB_GC_GUARD(site);
  RB_GC_GUARD(api_key);
  rb_thread_check_ints();
  return result;
}

RUBY_FUNC_EXPORTED void Init_datadog_folder_uploader(void) {
  VALUE datadog = rb_define_module("Datadog");
  VALUE profiling = rb_define_module_under(datadog, "Profiling");
  VALUE uploader = rb_define_module_under(profiling, "FolderUploader");
  rb_define_singleton_method(uploader, "_native_upload", native_upload, 5);
}
