// Profiles for the reader's tests, made with protobuf-c and the compressors' own libraries.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/reader.h"

namespace reader_test {

using Bytes = std::string;

// A profile as a tool might write it, whose parts a test may spoil before it is packed.
struct Profile {
  struct ValueType {
    int64_t type = 0, unit = 0;
  };
  struct Label {
    int64_t key = 0, str = 0, num = 0, num_unit = 0;
  };
  struct Sample {
    std::vector<uint64_t> locations;
    std::vector<int64_t> values;
    std::vector<Label> labels;
  };
  struct Mapping {
    uint64_t id = 0;
    int64_t filename = 0, build_id = 0;
    bool has_functions = false;
  };
  struct Line {
    uint64_t function = 0;
    int64_t line = 0;
  };
  struct Location {
    uint64_t id = 0, mapping = 0;
    std::vector<Line> lines;
    bool is_folded = false;
  };
  struct Function {
    uint64_t id = 0;
    int64_t name = 0, system_name = 0, filename = 0;
  };

  std::vector<ValueType> sample_types;
  std::vector<Sample> samples;
  std::vector<Mapping> mappings;
  std::vector<Location> locations;
  std::vector<Function> functions;
  std::vector<std::string> strings;
  std::vector<int64_t> comments;
  int64_t drop_frames = 0, keep_frames = 0, default_sample_type = 0;
  bool has_period_type = false;
  ValueType period_type;

  Bytes Pack() const;
};

// Two sample types, two samples with labels, two locations, functions and mappings; correct by every rule.
Profile Good();

Bytes Gzip(const Bytes &plain);
Bytes Lz4(const Bytes &plain);
Bytes Zstd(const Bytes &plain);

constexpr size_t kLimit = 64 << 20;

// The error's text; "" on success.
std::string ReadError(const Bytes &file, size_t limit = kLimit);
std::string CheckError(const Profile &profile, nf_reader_rules rules);
// The uncompressed bytes, or "error: ...".
std::string Decompress(const Bytes &file, size_t limit = kLimit);
// Calls `look` on the profile read from `file`; fails the test if it cannot be read.
void WithProfile(const Bytes &file, const std::function<void(const Pprof__Profile &)> &look);

// Protobuf by hand, for what a packer would not write.
Bytes Varint(uint64_t value);
Bytes Tag(unsigned field, unsigned wire_type);
Bytes Field(unsigned field, const Bytes &payload);

} // namespace reader_test
