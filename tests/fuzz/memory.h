// Makes the n-th request to core/alloc fail. To be linked with kMemoryLinkopts of BUILD (--wrap).
#pragma once

#include <cstddef>

namespace fuzz {

constexpr size_t kNever = static_cast<size_t>(-1);

// The next `n` requests are served; every one after them fails. Forgets that one failed.
void FailMemoryAfter(size_t n);

// Whether one failed since.
bool MemoryFailed();

} // namespace fuzz
