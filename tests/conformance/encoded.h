// What a library wrote, taken apart to where it must be equal byte by byte: facts of the wire, not of a
// decoder.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace conformance {

// A serialised profile, uncompressed. Every message of the format is kept as its own bytes, by field number
// and in order, so that ids, field order and field presence are all compared at once.
struct Encoded {
  std::string error; // why it could not be taken apart
  std::string raw;
  std::map<unsigned, std::vector<std::string>> messages;
  std::vector<unsigned> field_order; // each field number when it changes

  static Encoded FromLz4(const std::string &file); // one frame, no more
  static Encoded FromAny(const std::string &file); // whatever the reader knows
  static Encoded FromRaw(const std::string &raw);

  int64_t Number(unsigned field) const;
};

// The fields of one message, for people.
std::string Describe(const std::string &message);

enum PprofField : unsigned {
  kSampleType = 1,
  kSample = 2,
  kMapping = 3,
  kLocation = 4,
  kFunction = 5,
  kStringTable = 6,
  kTimeNanos = 9,
  kDurationNanos = 10,
  kPeriodType = 11,
  kPeriod = 12,
};

} // namespace conformance
