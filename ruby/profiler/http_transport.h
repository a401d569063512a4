#ifndef NF_HTTP_TRANSPORT_H
#define NF_HTTP_TRANSPORT_H

#include <ruby.h>

// Datadog::Profiling::HttpTransport: sends reports, by means of the library's exporter.
void nf_http_transport_define(VALUE profiling);

#endif
