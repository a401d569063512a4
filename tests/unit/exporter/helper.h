// What the exporter's unit tests share.
#ifndef NF_TESTS_UNIT_EXPORTER_HELPER_H
#define NF_TESTS_UNIT_EXPORTER_HELPER_H

#include "core/error.h"
#include "exporter/buffer.h"
#include "exporter/text.h"

#include <string>

inline nf_text view(const std::string &s) { return nf_text{s.data(), s.size()}; }

inline std::string take(nf_buffer *buffer) {
  std::string s = buffer->failed ? "(out of memory)" : std::string(buffer->data ? buffer->data : "", buffer->len);
  nf_buffer_deinit(buffer);
  return s;
}

inline std::string take(nf_error *error) {
  std::string s(nf_error_text(error), error->text ? error->len : 13);
  nf_error_deinit(error);
  return s;
}

#endif
