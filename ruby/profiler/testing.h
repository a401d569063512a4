#ifndef NF_TESTING_H
#define NF_TESTING_H

#include <ruby.h>

// Defines Datadog::Profiling::NativeExtension::Testing: doors to what cannot be reached from Ruby otherwise.
void nf_testing_define(VALUE native_extension);

#endif
