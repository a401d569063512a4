// A sequence of API calls as plain data: it can be generated, played on any library, shrunk, and printed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace conformance {

// Where the bytes of a text lie while they are passed. Content and address are independent on purpose: a
// library that takes one for the other is wrong.
enum class Place {
  kOwn,   // memory of its own, allocated for this call and freed after it
  kPool,  // the same address whenever the same content is passed, as a sampler's constants
  kSlot0, // one of a few buffers that are used again and again for different contents
  kSlot1,
  kNull, // {NULL, 0}; only for an empty text
};

struct Text {
  std::string bytes;
  Place place = Place::kOwn;
};

struct ValueType {
  Text type, unit;
};
struct Mapping {
  uint64_t start = 0, limit = 0, offset = 0;
  Text filename, build_id;
};
struct Function {
  Text name, system_name, filename;
  int64_t start_line = 0;
};
struct Location {
  Mapping mapping;
  Function function;
  uint64_t address = 0;
  int64_t line = 0;
};
struct Label {
  Text key, str;
  int64_t num = 0;
  Text num_unit;
};
struct Timespec {
  int64_t seconds = 0;
  uint32_t nanoseconds = 0;
};

enum class Kind {
  kNew,
  kDrop,
  kAdd,
  kSetEndpoint,
  kEndpointCount,
  kPoisson,
  kProportional,
  kSerialize,
  kReset
};

// Profile 0 and 1 are two handles of one sequence, to be used in turns.
enum class Handle { kProfile0, kProfile1, kNull, kInnerNull };

// One call; each kind uses those fields that its function has parameters for.
struct Call {
  Kind kind = Kind::kAdd;
  Handle handle = Handle::kProfile0;

  std::vector<ValueType> types; // new
  std::optional<ValueType> period_type;
  int64_t period = 0;
  std::optional<Timespec> start; // new, reset: start; serialize: the next start

  std::vector<Location> locations; // add
  std::vector<int64_t> values;
  std::vector<Label> labels;
  int64_t timestamp = 0;

  uint64_t root_span = 0; // endpoints
  Text endpoint;
  int64_t count = 0;

  std::vector<uintptr_t> offsets; // upscaling
  Text label_name, label_value;
  uintptr_t sum_offset = 0, count_offset = 0;
  uint64_t distance = 0, sampled = 0, real = 0;

  std::optional<Timespec> end; // serialize
  std::optional<int64_t> duration;
};

using Sequence = std::vector<Call>;

std::string Print(const Sequence &sequence);
std::string Print(const Call &call);
// A C string literal; long runs of one byte are written as a repetition.
std::string Quote(const std::string &bytes);

} // namespace conformance
