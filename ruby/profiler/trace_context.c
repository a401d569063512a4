#include "trace_context.h"

#include <string.h>

// How far a chain of spans is followed: longer ones do not exist, unless somebody has tied a knot.
#define LONGEST_CHAIN 1000

static ID at_active_span, at_active_trace, at_context, at_datadog_trace, at_entries, at_id, at_kind, at_name,
    at_otel_values, at_parent_span_id, at_remote, at_resource, at_root_span, at_span_id, at_trace_id, at_type;
static ID at_opentelemetry_context; // of a Fiber, since version 1.8 of OpenTelemetry's gem
static ID otel_context_storage;     // the fiber-local variable before
static ID at_components, at_key, at_provider, at_tracer;
static VALUE kind_server;
static VALUE datadog; // the module, which is never collected

void nf_trace_context_init(void) {
  at_active_span = rb_intern("@active_span");
  at_active_trace = rb_intern("@active_trace");
  at_context = rb_intern("@context");
  at_datadog_trace = rb_intern("@datadog_trace");
  at_entries = rb_intern("@entries");
  at_id = rb_intern("@id");
  at_kind = rb_intern("@kind");
  at_name = rb_intern("@name");
  at_otel_values = rb_intern("@otel_values");
  at_parent_span_id = rb_intern("@parent_span_id");
  at_remote = rb_intern("@remote");
  at_resource = rb_intern("@resource");
  at_root_span = rb_intern("@root_span");
  at_span_id = rb_intern("@span_id");
  at_trace_id = rb_intern("@trace_id");
  at_type = rb_intern("@type");
  at_opentelemetry_context = rb_intern("@opentelemetry_context");
  otel_context_storage = rb_intern("__opentelemetry_context_storage__");
  at_components = rb_intern("@components");
  at_key = rb_intern("@key");
  at_provider = rb_intern("@provider");
  at_tracer = rb_intern("@tracer");
  datadog = rb_define_module("Datadog");
  kind_server = ID2SYM(rb_intern("server"));
}

// nil for everything that is not an ordinary object with that variable.
static VALUE variable(VALUE object, ID name) {
  return RB_TYPE_P(object, T_OBJECT) ? rb_attr_get(object, name) : Qnil;
}

static bool text_is(VALUE value, const char *text) {
  size_t length = strlen(text);
  return RB_TYPE_P(value, T_STRING) && (size_t)RSTRING_LEN(value) == length &&
         memcmp(RSTRING_PTR(value), text, length) == 0;
}

// From 1 to 2^64 - 1.
static bool id_of(VALUE value, uint64_t *id) {
  if (!RB_INTEGER_TYPE_P(value)) return false;
  return rb_integer_pack(value, id, 1, sizeof(*id), 0,
                         INTEGER_PACK_LSWORD_FIRST | INTEGER_PACK_NATIVE_BYTE_ORDER) == 1;
}

// --- OpenTelemetry's key for the current span ---

static int find_current_span(VALUE key, VALUE value, VALUE data) {
  if (!text_is(variable(key, at_name), "current-span")) return ST_CONTINUE;
  *(VALUE *)data = value;
  return ST_STOP;
}

// A lookup by key would call methods of the key. These tables have a handful of entries.
static VALUE current_span_in(VALUE hash) {
  VALUE span = Qnil;
  if (RB_TYPE_P(hash, T_HASH)) rb_hash_foreach(hash, find_current_span, (VALUE)&span);
  return span;
}

// --- the datadog tracer ---

static VALUE id_of_key(VALUE symbol) { return (VALUE)SYM2ID(symbol); }

void nf_trace_context_find_tracer(nf_trace_source *source) {
  VALUE tracer = variable(rb_attr_get(datadog, at_components), at_tracer);
  VALUE key = variable(variable(variable(tracer, at_provider), at_context), at_key);
  source->tracer_context_key = 0;
  if (!SYMBOL_P(key)) return;
  VALUE error = rb_errinfo();
  int raised = 0;
  ID id = (ID)rb_protect(id_of_key, key, &raised);
  if (raised) {
    rb_set_errinfo(error); // no memory; at the next sample, perhaps
  } else {
    source->tracer_context_key = id;
  }
}

static bool is_request(VALUE type) {
  return text_is(type, "web") || text_is(type, "proxy") || text_is(type, "worker");
}

static VALUE endpoint_of(VALUE trace, VALUE root_span) {
  if (!is_request(variable(root_span, at_type))) return Qnil;
  VALUE resource = variable(trace, at_resource);
  if (NIL_P(resource)) resource = variable(root_span, at_resource);
  return RB_TYPE_P(resource, T_STRING) ? resource : Qnil;
}

// A span that OpenTelemetry started through the tracer has a trace of its own, which leads to that of the
// span around it; the last one has the root.
static VALUE outermost_trace(VALUE trace) {
  for (int i = 0; i < LONGEST_CHAIN; i++) {
    VALUE next = variable(current_span_in(variable(trace, at_otel_values)), at_datadog_trace);
    if (NIL_P(next) || next == trace) break;
    trace = next;
  }
  return trace;
}

static bool datadog_trace_of(const nf_trace_source *source, nf_vm_thread *thread, nf_trace *found) {
  if (source->tracer_context_key == 0) return false;
  VALUE context = rb_thread_local_aref(nf_vm_thread_object(thread), source->tracer_context_key);
  VALUE trace = variable(context, at_active_trace);
  if (NIL_P(trace)) return false;
  VALUE span_id = variable(variable(trace, at_active_span), at_id);
  if (!NIL_P(variable(trace, at_otel_values))) {
    if (NIL_P(variable(trace, at_active_span))) span_id = variable(trace, at_parent_span_id);
    trace = outermost_trace(trace);
  }
  VALUE root_span = variable(trace, at_root_span);
  if (!id_of(span_id, &found->span_id) || !id_of(variable(root_span, at_id), &found->local_root_span_id)) {
    return false;
  }
  found->endpoint = source->endpoints ? endpoint_of(trace, root_span) : Qnil;
  return true;
}

// --- OpenTelemetry alone ---

// Its ids are strings of bytes, the most significant first.
static bool otel_id_of(VALUE value, uint64_t *id) {
  if (!RB_TYPE_P(value, T_STRING) || RSTRING_LEN(value) != 8) return false;
  const unsigned char *bytes = (const unsigned char *)RSTRING_PTR(value);
  *id = 0;
  for (int i = 0; i < 8; i++) *id = *id << 8 | bytes[i];
  return *id != 0;
}

static bool same_trace(VALUE one, VALUE other) {
  return RB_TYPE_P(one, T_STRING) && RB_TYPE_P(other, T_STRING) && RSTRING_LEN(one) == RSTRING_LEN(other) &&
         memcmp(RSTRING_PTR(one), RSTRING_PTR(other), (size_t)RSTRING_LEN(one)) == 0;
}

static VALUE span_at(VALUE contexts, long position) {
  return current_span_in(variable(rb_ary_entry(contexts, position), at_entries));
}

static VALUE otel_contexts(nf_vm_thread *thread) {
  VALUE fiber = nf_vm_thread_fiber(thread);
  VALUE contexts = NIL_P(fiber) ? Qnil : rb_attr_get(fiber, at_opentelemetry_context);
  if (NIL_P(contexts)) contexts = rb_thread_local_aref(nf_vm_thread_object(thread), otel_context_storage);
  return contexts;
}

// The thread's contexts are on a stack. The local root is the outermost span of the current one's trace that
// is not merely a reference to a span of another process.
static bool otel_trace_of(const nf_trace_source *source, nf_vm_thread *thread, nf_trace *found) {
  VALUE contexts = otel_contexts(thread);
  if (!RB_TYPE_P(contexts, T_ARRAY) || RARRAY_LEN(contexts) == 0) return false;
  long position = RARRAY_LEN(contexts) - 1;
  VALUE root = span_at(contexts, position);
  VALUE reference = variable(root, at_context);
  VALUE trace_id = variable(reference, at_trace_id);
  if (!otel_id_of(variable(reference, at_span_id), &found->span_id)) return false;
  found->local_root_span_id = found->span_id;
  for (long i = 0; i < LONGEST_CHAIN && --position >= 0; i++) {
    VALUE span = span_at(contexts, position);
    reference = variable(span, at_context);
    if (!same_trace(variable(reference, at_trace_id), trace_id) || RTEST(variable(reference, at_remote)))
      break;
    if (!otel_id_of(variable(reference, at_span_id), &found->local_root_span_id)) return false;
    root = span;
  }
  VALUE name = variable(root, at_name);
  bool request = variable(root, at_kind) == kind_server && RB_TYPE_P(name, T_STRING);
  found->endpoint = source->endpoints && request ? name : Qnil;
  return true;
}

bool nf_trace_context_of(const nf_trace_source *source, nf_vm_thread *thread, nf_trace *trace) {
  if (source->otel != NF_OTEL_ONLY && datadog_trace_of(source, thread, trace)) return true;
  return source->otel != NF_OTEL_OFF && otel_trace_of(source, thread, trace);
}
