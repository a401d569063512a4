// The header as C++: the assertions are most of the test.
#define CHECK(condition) static_assert(condition, #condition)
#include "tests/unit/core/abi_layout.inc"

#include <gtest/gtest.h>

#include <string>

extern "C" ddog_CharSlice layout_literal(void);

namespace {

TEST(Layout, ALiteralIsTheSameSliceInBothLanguages) {
  ddog_CharSlice c = layout_literal(), cxx = DDOG_CHARSLICE_C("literal");
  EXPECT_EQ(std::string(c.ptr, c.len), "literal");
  EXPECT_EQ(std::string(cxx.ptr, cxx.len), "literal");
}

} // namespace
