// core/utf8 against a plain reference: validity, place and length of the first fault, its text, and the
// replacement. The first byte shifts the text in memory.
#include "core/utf8.h"

#include "tests/fuzz/check.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/utf8_reference.h"

using fuzz::Exact;

namespace {

void CheckText(const std::string &text, size_t shift) {
  Exact memory(std::string(shift, '\xFF') + text);
  const char *p = memory.data() + shift;
  fuzz::Utf8Fault expected = fuzz::FirstFault(text);

  nf_utf8_fault fault = {12345, 77};
  bool valid = nf_utf8_valid(p, text.size(), &fault);
  CHECK(valid == !expected.found);
  if (!valid) {
    CHECK(fault.index == expected.index, "%zu, not %zu", fault.index, expected.index);
    CHECK(fault.len == expected.len, "%u, not %u", fault.len, expected.len);
  }

  nf_error error = {};
  CHECK(nf_utf8_check(p, text.size(), &error) == valid);
  CHECK(valid == (error.text == nullptr));
  if (!valid) CHECK(std::string(error.text, error.len) == fuzz::FaultText(expected), "%s", error.text);
  nf_error_deinit(&error);

  std::string lossy = fuzz::Lossy(text);
  size_t size = nf_utf8_lossy_size(p, text.size());
  CHECK(size == lossy.size(), "%zu, not %zu", size, lossy.size());
  Exact out(std::string(size, '?'));
  nf_utf8_lossy(p, text.size(), const_cast<char *>(out.data()));
  CHECK(std::string(out.data(), size) == lossy);
  CHECK(nf_utf8_valid(out.data(), size, &fault));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::Input input(data, size);
  size_t shift = input.Byte() % 16;
  CheckText(input.Rest(), shift);
  return 0;
}
