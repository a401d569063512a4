#ifndef NF_TRACE_CONTEXT_H
#define NF_TRACE_CONTEXT_H

// Which trace a thread is working on: read from the objects of the `datadog` tracer, of OpenTelemetry through
// that tracer, or of OpenTelemetry alone, by looking at their instance variables. No Ruby method is called,
// no object made and nothing raised, whatever these variables hold.

#include "private_vm_access.h"
#include "ruby_helpers.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum nf_otel_mode {
  NF_OTEL_OFF,  // OpenTelemetry is only seen through the datadog tracer
  NF_OTEL_ONLY, // only OpenTelemetry's own context is looked at
  NF_OTEL_BOTH  // OpenTelemetry's own, when the datadog tracer has nothing
} nf_otel_mode;

typedef struct nf_trace_source {
  ID tracer_context_key; // fiber-local variable in which the datadog tracer keeps its context; 0: no tracer
  bool find_tracer;      // whichever the gem has at the moment, see below
  nf_otel_mode otel;
  bool endpoints; // shall the resource be looked for?
} nf_trace_source;

typedef struct nf_trace {
  uint64_t local_root_span_id, span_id; // neither is 0
  VALUE endpoint;                       // String, or nil: not wanted, not known, or no request
} nf_trace;

// May raise.
void nf_trace_context_init(void);

// The tracer may be loaded late, and is another one each time that the gem is configured: finds the key of
// the present one. As above, but a key that was not seen before may take memory of Ruby.
void nf_trace_context_find_tracer(nf_trace_source *source);

// False if the thread works on no trace. GVL held, the thread is alive.
bool nf_trace_context_of(const nf_trace_source *source, nf_vm_thread *thread, nf_trace *trace);

#endif
