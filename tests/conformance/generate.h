// Sequences to play: random ones, and directed ones that go through a whole kind of input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/conformance/sequence.h"

namespace conformance {

// The same seed always gives the same sequence.
Sequence Generate(uint64_t seed);

// Every UTF-8 fault at every position of every text parameter, huge inputs, ends of int64, ...
struct Directed {
  std::string name;
  Sequence sequence;
};
std::vector<Directed> DirectedSequences();

// Byte strings that are not UTF-8, each in its own way.
const std::vector<std::string> &Utf8Faults();

} // namespace conformance
