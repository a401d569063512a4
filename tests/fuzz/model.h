// What a profile must hold, worked out anew from the rules of the interface, in the plainest way: maps of
// strings. A fuzz target tells it what it passed to the library, and compares at the end.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/profile.pb-c.h"

namespace fuzz {

struct ModelLabel {
  std::string key, str;
  int64_t num = 0;
  std::string num_unit;

  // As it is kept: a text hides number and unit.
  ModelLabel Kept() const { return str.empty() ? *this : ModelLabel{key, str, 0, ""}; }
  bool operator<(const ModelLabel &o) const {
    return std::tie(key, str, num, num_unit) < std::tie(o.key, o.str, o.num, o.num_unit);
  }
  bool operator==(const ModelLabel &o) const {
    return std::tie(key, str, num, num_unit) == std::tie(o.key, o.str, o.num, o.num_unit);
  }
};

struct ModelLocation {
  std::array<uint64_t, 3> mapping = {}; // memory start, limit, file offset
  std::string mapping_filename, build_id, name, system_name, filename;
  int64_t start_line = 0;
  uint64_t address = 0;
  int64_t line = 0;

  bool operator<(const ModelLocation &o) const { return Tie() < o.Tie(); }
  bool operator==(const ModelLocation &o) const { return Tie() == o.Tie(); }

private:
  std::tuple<const std::array<uint64_t, 3> &, const std::string &, const std::string &, const std::string &,
             const std::string &, const std::string &, int64_t, uint64_t, int64_t>
  Tie() const {
    return {mapping, mapping_filename, build_id, name, system_name, filename, start_line, address, line};
  }
};

// As it is passed, and as it is read back.
struct ModelSample {
  std::vector<ModelLocation> locations;
  std::vector<int64_t> values;
  std::vector<ModelLabel> labels;
};

struct ModelRule {
  std::vector<uintptr_t> offsets;
  std::string name, value;
  bool poisson = false;
  uintptr_t sum_offset = 0, count_offset = 0;
  uint64_t distance = 0;
  uint64_t sampled = 0, real = 0;
};

class Model {
public:
  explicit Model(size_t n_types) : n_types_(n_types) {}

  // Each tells how the error must begin that the library must give, or "" for success. They change nothing:
  // what succeeded is to be applied.
  std::string WhyNotAdd(const ModelSample &sample) const;
  std::string WhyNotRule(const ModelRule &rule) const;

  // Whether adding brings no new row.
  bool Repeats(const ModelSample &sample, int64_t timestamp) const;

  void Add(const ModelSample &sample, int64_t timestamp);
  void AddRule(const ModelRule &rule);
  void SetEndpoint(uint64_t root_span, const std::string &name);
  void AddEndpointCount(const std::string &name, int64_t value);
  void Clear();

  // In the order in which they must be written.
  std::vector<ModelSample> Samples() const;
  // In the order in which they came up.
  const std::vector<std::pair<std::string, int64_t>> &endpoint_counts() const { return endpoint_counts_; }

  size_t n_types() const { return n_types_; }
  size_t n_aggregated() const { return aggregated_.size(); }
  size_t n_timestamped() const { return timestamped_.size(); }

private:
  struct Row {
    std::vector<ModelLocation> locations;
    std::vector<int> labels; // ids, sorted
    std::vector<int64_t> values;
    int64_t timestamp;
  };
  using Key = std::pair<std::vector<ModelLocation>, std::set<ModelLabel>>;

  static Key KeyOf(const ModelSample &sample);
  void ApplyRules(const std::string &name, const std::string &value, std::vector<int64_t> *values) const;
  ModelSample Written(const Row &row) const;

  size_t n_types_;
  std::map<ModelLabel, int> label_ids_;
  std::vector<ModelLabel> labels_;
  std::map<Key, size_t> index_;
  std::vector<Row> aggregated_, timestamped_;
  std::map<uint64_t, std::string> endpoints_;
  std::vector<std::pair<std::string, int64_t>> endpoint_counts_;
  std::vector<ModelRule> rules_;
};

// The samples of a profile that the reader has checked, with ids resolved.
std::vector<ModelSample> SamplesOf(const Pprof__Profile *profile);

// As the reader shows a text: it cannot hold NULs.
std::string WithoutNul(const std::string &text);

// Ends the program at the first difference.
void CheckEqual(const std::vector<ModelSample> &expected, const std::vector<ModelSample> &actual);

} // namespace fuzz
