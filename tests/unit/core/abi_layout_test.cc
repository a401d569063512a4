// The header as C++: the assertions are most of the test. Without GoogleTest, whose newer releases take C++17
// only.
#define CHECK(condition) static_assert(condition, #condition)
#include "tests/unit/core/abi_layout.inc"

#include <cstdio>
#include <string>

extern "C" ddog_CharSlice layout_literal(void);

// A literal is the same slice in both languages.
int main() {
  const ddog_CharSlice slices[] = {layout_literal(), DDOG_CHARSLICE_C("literal")};
  for (const ddog_CharSlice &slice : slices) {
    const std::string text(slice.ptr, slice.len);
    if (text == "literal") continue;
    std::fprintf(stderr, "the slice of \"literal\" is \"%s\"\n", text.c_str());
    return 1;
  }
  return 0;
}
