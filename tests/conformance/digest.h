// One number for all that a library did in a sequence, for comparing machines that cannot share a process.
#pragma once

#include <cstdint>

#include "tests/conformance/play.h"

namespace conformance {

// Equal for equal results, messages, endpoint counts and bytes of profiles; what follows from the clock is left out.
uint64_t Digest(const Outcome &outcome);

} // namespace conformance
