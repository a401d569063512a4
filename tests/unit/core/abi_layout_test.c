/* The header as C: the assertions are the test. */
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define CHECK(condition) typedef char JOIN(holds_, __COUNTER__)[(condition) ? 1 : -1] __attribute__((unused))
#include "tests/unit/core/abi_layout.inc"

ddog_CharSlice layout_literal(void);
ddog_CharSlice layout_literal(void) { return __extension__ DDOG_CHARSLICE_C("literal"); }
