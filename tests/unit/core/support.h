// What the tests of the engine share: profiles built through the public interface, and decoded again.
#ifndef NF_TESTS_UNIT_CORE_SUPPORT_H
#define NF_TESTS_UNIT_CORE_SUPPORT_H

#include <datadog/profiling.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/reader.h"

namespace support {

inline ddog_CharSlice Slice(const std::string &s) { return {s.data(), s.size()}; }

using Types = std::vector<std::pair<std::string, std::string>>;

struct Frame {
  std::string name, filename;
  int64_t line = 0;
  std::string system_name = {};
  int64_t start_line = 0;
  uint64_t address = 0;
  uint64_t memory_start = 0, memory_limit = 0, file_offset = 0;
  std::string mapping_filename = {}, build_id = {};
};

struct Label {
  std::string key, str;
  int64_t num = 0;
  std::string unit;
};
inline Label Text(std::string key, std::string str) { return {std::move(key), std::move(str), 0, ""}; }
inline Label Number(std::string key, int64_t num, std::string unit = "") {
  return {std::move(key), "", num, std::move(unit)};
}

// A decoded sample, with names in the place of ids.
struct Sample {
  std::vector<std::string> stack; // "name file:line", leaf first
  std::vector<int64_t> values;
  std::vector<std::string> labels; // in order: key=text, key=#number, key=#number unit
  bool operator==(const Sample &other) const {
    return stack == other.stack && values == other.values && labels == other.labels;
  }
};
std::ostream &operator<<(std::ostream &out, const Sample &sample);

// A pprof profile that passed the strict checks.
class Decoded {
public:
  Decoded() = default;
  Decoded(const uint8_t *data, size_t len);
  const Pprof__Profile *operator->() const { return message_.get(); }
  bool ok() const { return message_ != nullptr; }
  std::vector<std::string> strings() const;
  std::vector<Sample> samples() const;
  const std::string &raw() const { return raw_; } // uncompressed

private:
  std::shared_ptr<Pprof__Profile> message_;
  std::string raw_;
};

// A profile of its own; every call is expected to do what its name says.
class Profile {
public:
  explicit Profile(Types types = {{"cpu", "ns"}, {"n", "count"}}, ddog_Timespec start = {1700000000, 0});
  ~Profile() { ddog_prof_Profile_drop(&handle_); }
  Profile(const Profile &) = delete;
  ddog_prof_Profile *handle() { return &handle_; }

  // The error's text; "" if it was added.
  std::string Add(const std::vector<Frame> &frames, const std::vector<int64_t> &values,
                  const std::vector<Label> &labels = {}, int64_t timestamp = 0);
  std::string SetEndpoint(uint64_t id, const std::string &name);
  std::string CountEndpoint(const std::string &name, int64_t value);
  std::string Poisson(const std::vector<uintptr_t> &offsets, const std::string &name,
                      const std::string &value, uintptr_t sum, uintptr_t count, uint64_t distance);
  std::string Proportional(const std::vector<uintptr_t> &offsets, const std::string &name,
                           const std::string &value, uint64_t sampled, uint64_t real);
  ddog_prof_EncodedProfile Serialize(ddog_prof_Codec codec = DDOG_PROF_CODEC_LZ4_FRAME);
  Decoded Decode(ddog_prof_Codec codec = DDOG_PROF_CODEC_LZ4_FRAME); // serializes, which empties it
  ddog_prof_Profile_Stats stats() { return ddog_prof_Profile_stats(&handle_); }

private:
  ddog_prof_Profile handle_;
};

// The text of an error result, which it frees; "" for Ok.
std::string TextOf(ddog_prof_Profile_Result result);
std::string TextOf(ddog_Error *error);

} // namespace support

#endif
