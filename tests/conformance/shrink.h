// Makes a failing sequence as small as it can.
#pragma once

#include <functional>

#include "tests/conformance/sequence.h"

namespace conformance {

// `fails` must hold for `sequence`; it holds for the result too. Calls `fails` at most `tries` times.
Sequence Shrink(Sequence sequence, const std::function<bool(const Sequence &)> &fails, int tries);

} // namespace conformance
