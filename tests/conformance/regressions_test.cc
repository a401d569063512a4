// What the driver may not play on the original: inputs that abort, crash or mislead it, and on which we
// answer (differences.h has the list); and the faults that the driver once found, each in its smallest form.
// Expected values are the original's, or follow from arithmetic.
#include <datadog/profiling.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/reader.h"

namespace {

ddog_CharSlice S(const char *text) { return {text, strlen(text)}; }

// A profile of ours with sample types "t0", "t1", ...; start 0.
class Profile {
public:
  explicit Profile(size_t types, ddog_Timespec start = {0, 0}) {
    std::vector<std::string> names;
    for (size_t i = 0; i < types; i++) names.push_back("t" + std::to_string(i));
    std::vector<ddog_prof_ValueType> list;
    for (const std::string &name : names) list.push_back({{name.data(), name.size()}, S("unit")});
    ddog_prof_Profile_NewResult made = ddog_prof_Profile_new({list.data(), list.size()}, nullptr, &start);
    EXPECT_EQ(DDOG_PROF_PROFILE_NEW_RESULT_OK, made.tag);
    profile_ = made.ok;
  }
  ~Profile() { ddog_prof_Profile_drop(&profile_); }
  ddog_prof_Profile *handle() { return &profile_; }

private:
  ddog_prof_Profile profile_;
};

// "" or the message.
std::string Take(ddog_prof_Profile_Result result) {
  if (result.tag == DDOG_PROF_PROFILE_RESULT_OK) return "";
  ddog_CharSlice message = ddog_Error_message(&result.err);
  std::string text(message.ptr, message.len);
  ddog_Error_drop(&result.err);
  return text.empty() ? "(error without a message)" : text;
}

std::string Add(Profile &profile, std::vector<int64_t> values, std::vector<ddog_prof_Label> labels = {},
                int64_t timestamp = 0) {
  ddog_prof_Sample sample = {};
  sample.values = {values.data(), values.size()};
  sample.labels = {labels.data(), labels.size()};
  return Take(ddog_prof_Profile_add(profile.handle(), sample, timestamp));
}

struct Serialized {
  ddog_Timespec start = {}, end = {};
  Pprof__Profile *profile = nullptr;
  ~Serialized() { nf_reader_drop(profile); }
};

void Serialize(Profile &profile, Serialized *out, ddog_Timespec end = {0, 0}, ddog_Timespec next = {0, 0},
               const int64_t *duration = nullptr) {
  ddog_prof_Profile_SerializeResult result =
      ddog_prof_Profile_serialize(profile.handle(), &end, duration, &next);
  ASSERT_EQ(DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK, result.tag);
  out->start = result.ok.start;
  out->end = result.ok.end;
  nf_error error = {};
  EXPECT_TRUE(nf_reader_read(result.ok.buffer.ptr, result.ok.buffer.len, SIZE_MAX, &out->profile, &error))
      << nf_error_text(&error);
  nf_error_deinit(&error);
  ddog_prof_EncodedProfile_drop(&result.ok);
}

// ---- Times that abort the original ----

struct Time {
  ddog_Timespec given, normal;
};
const Time kTimes[] = {
    {{5, 1000000000}, {6, 0}},         {{5, 2500000000}, {7, 500000000}},          {{-1, 1000000000}, {0, 0}},
    {{0, UINT32_MAX}, {4, 294967295}}, {{10000000000000, 0}, {10000000000000, 0}},
};

TEST(Times, OutOfRangeNanosecondsAreCarried) {
  for (const Time &time : kTimes) {
    Profile profile(1, time.given);
    Serialized first;
    Serialize(profile, &first, time.given, time.given);
    EXPECT_EQ(time.normal.seconds, first.start.seconds);
    EXPECT_EQ(time.normal.nanoseconds, first.start.nanoseconds);
    EXPECT_EQ(time.normal.seconds, first.end.seconds);
    EXPECT_EQ(time.normal.nanoseconds, first.end.nanoseconds);
    Serialized second;
    Serialize(profile, &second);
    EXPECT_EQ(time.normal.seconds, second.start.seconds);
    EXPECT_EQ("", Take(ddog_prof_Profile_reset(profile.handle(), &time.given)));
    Serialized third;
    Serialize(profile, &third);
    EXPECT_EQ(time.normal.seconds, third.start.seconds);
    EXPECT_EQ(time.normal.nanoseconds, third.start.nanoseconds);
  }
}

TEST(Times, TheEndsOfInt64AreSurvived) {
  const ddog_Timespec ends[] = {
      {INT64_MAX, UINT32_MAX}, {INT64_MAX, 0}, {INT64_MIN, UINT32_MAX}, {INT64_MIN, 0}};
  for (const ddog_Timespec &start : ends) {
    for (const ddog_Timespec &end : ends) {
      Profile profile(1, start);
      Serialized out;
      Serialize(profile, &out, end, end);
      ASSERT_NE(nullptr, out.profile);
      EXPECT_EQ(start.seconds < 0 ? 0 : INT64_MAX, out.profile->time_nanos);
      EXPECT_EQ(start.seconds < 0 && end.seconds > 0 ? INT64_MAX : out.profile->duration_nanos,
                out.profile->duration_nanos);
      EXPECT_GE(out.profile->duration_nanos, 0);
      EXPECT_LT(out.start.nanoseconds, 1000000000u);
      EXPECT_LT(out.end.nanoseconds, 1000000000u);
    }
  }
}

// ---- Pointers that crash it ----

TEST(Pointers, NullIsFineWhereverAPointerIsTaken) {
  ddog_prof_Profile_drop(nullptr);
  ddog_prof_EncodedProfile_drop(nullptr);
  ddog_Error_drop(nullptr);
  EXPECT_EQ(0u, ddog_Error_message(nullptr).len);
  EXPECT_EQ(0u, ddog_Vec_U8_as_slice(nullptr).len);
}

TEST(Pointers, AnEncodedProfileMayBeDroppedTwice) {
  Profile profile(1);
  ddog_prof_Profile_SerializeResult result =
      ddog_prof_Profile_serialize(profile.handle(), nullptr, nullptr, nullptr);
  ASSERT_EQ(DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK, result.tag);
  ddog_prof_EncodedProfile_drop(&result.ok);
  EXPECT_EQ(0u, ddog_Vec_U8_as_slice(&result.ok.buffer).len);
  ddog_prof_EncodedProfile_drop(&result.ok);
}

// ---- Rules that it takes for colliding ----

TEST(Rules, OffsetsFarApartDoNotCollide) {
  for (size_t offset = 32; offset < 70; offset++) {
    Profile profile(100);
    uintptr_t low = offset % 32, high = offset;
    EXPECT_EQ("", Take(ddog_prof_Profile_add_upscaling_rule_proportional(profile.handle(), {&high, 1},
                                                                         S("label"), S("value"), 1, 2)));
    EXPECT_EQ("", Take(ddog_prof_Profile_add_upscaling_rule_proportional(profile.handle(), {&low, 1}, S(""),
                                                                         S(""), 1, 3)));
    EXPECT_NE("", Take(ddog_prof_Profile_add_upscaling_rule_proportional(profile.handle(), {&high, 1}, S(""),
                                                                         S(""), 1, 3)));
    std::vector<int64_t> values(100, 10);
    ASSERT_EQ("", Add(profile, values, {{S("label"), S("value"), 0, S("")}}));
    Serialized out;
    Serialize(profile, &out);
    ASSERT_NE(nullptr, out.profile);
    EXPECT_EQ(20, out.profile->sample[0]->value[high]);
    EXPECT_EQ(30, out.profile->sample[0]->value[low]);
    EXPECT_EQ(10, out.profile->sample[0]->value[99]);
  }
}

// ---- Found by the driver; the expected values are the original's ----

std::string AddRule(Profile &profile, uintptr_t offset, const char *value, uint64_t sampled, uint64_t real) {
  return Take(ddog_prof_Profile_add_upscaling_rule_proportional(profile.handle(), {&offset, 1}, S(""),
                                                                S(value), sampled, real));
}

TEST(Found, ARuleRefusedForItsOffsetLeavesItsTexts) {
  Profile profile(0);
  EXPECT_EQ("Invalid offset. Highest expected offset: 0", AddRule(profile, UINTPTR_MAX, "v", 10, 3));
  Serialized out;
  Serialize(profile, &out);
  ASSERT_NE(nullptr, out.profile);
  ASSERT_EQ(5u, out.profile->n_string_table);
  EXPECT_STREQ("v", out.profile->string_table[4]);
}

TEST(Found, ARuleRefusedForAZeroLeavesNothing) {
  Profile profile(0);
  EXPECT_EQ("total_sampled and total_real parameters must not be equal to 0",
            AddRule(profile, UINTPTR_MAX, "v", 0, 3));
  Serialized out;
  Serialize(profile, &out);
  ASSERT_NE(nullptr, out.profile);
  EXPECT_EQ(4u, out.profile->n_string_table);
}

TEST(Found, ErrorsEscapeTheControlsBeyondAscii) {
  Profile profile(0);
  for (int code = 0x80; code < 0xA0; code++) {
    char text[] = {'\xc2', static_cast<char>(code), 0};
    char escaped[16];
    snprintf(escaped, sizeof escaped, "\\u{%x}", code);
    EXPECT_EQ(
        std::string("ddog_prof_Profile_add failed: Timestamp should not be passed as a label Label { key: "
                    "\"end_timestamp_ns\", str: Some(\"") +
            escaped + "\"), num: 0, num_unit: None }",
        Add(profile, {}, {{S("end_timestamp_ns"), S(text), 0, S("")}}));
  }
}

// Where two decimals of the shortest length are equally near, the original takes the upper one.
TEST(Found, ErrorsRoundTheScaleUpWhenInDoubt) {
  const struct {
    uint64_t sampled, real;
    const char *scale;
  } cases[] = {{64, 65363806854834, "1021309482106.7813"},
               {35, 624310209645896, "17837434561311.313"},
               {69, 93770642833994407, "1358994823681078.3"},
               {95, 92107361185227734, "969551170370818.3"},
               {64, 41531014571206735, "648922102675105.3"},
               {2, 5, "2.5"},
               {10, 3, "0.3"},
               {1, 1, "1.0"}};
  for (const auto &c : cases) {
    Profile profile(1);
    EXPECT_EQ("", AddRule(profile, 0, "v", c.sampled, c.real));
    std::string refusal = AddRule(profile, 0, "v", 1, 1);
    EXPECT_NE(std::string::npos,
              refusal.find("Existing rule Some(UpscalingRule { upscaling_info: Proportional { "
                           "scale: " +
                           std::string(c.scale) + " }, values_offset: [0] })"))
        << refusal;
  }
}

// Many labels once took time by the square of their number: with this many the test would not end.
TEST(Found, ALabelIsLookedForAmongAQuarterOfAMillion) {
  Profile profile(1);
  std::vector<std::string> keys;
  for (int i = 0; i < 1 << 18; i++) keys.push_back("key " + std::to_string(i));
  std::vector<ddog_prof_Label> labels;
  for (const std::string &key : keys) labels.push_back({{key.data(), key.size()}, S(""), 1, S("")});
  for (int round = 0; round < 3; round++) {
    EXPECT_EQ("", Add(profile, {1}, labels));
    EXPECT_EQ("", Add(profile, {1}, {labels.rbegin(), labels.rend()}));
  }
  labels.push_back(labels[1000]);
  EXPECT_EQ(
      "ddog_prof_Profile_add failed: Duplicate label on sample: Label { key: \"key 1000\", str: None, num: 1, "
      "num_unit: None } Label { key: \"key 1000\", str: None, num: 1, num_unit: None }",
      Add(profile, {1}, labels));
}

// A timeline that has run out of names for the widths of its values writes the widths themselves.
TEST(Timeline, KeepsValuesOfAnyWidths) {
  const int64_t widths[] = {0,          1,         0x7f,      0x7fff,    1 << 20,
                            0x7fffffff, 1ll << 36, 1ll << 44, 1ll << 52, INT64_MIN};
  std::vector<std::vector<int64_t>> rows;
  for (int64_t a : widths)
    for (int64_t b : widths)
      for (int64_t c : widths) rows.push_back({a, b, c});
  Profile profile(3);
  for (const auto &row : rows) ASSERT_EQ("", Add(profile, row, {}, 1));
  Serialized out;
  Serialize(profile, &out);
  ASSERT_NE(nullptr, out.profile);
  ASSERT_EQ(1000u, out.profile->n_sample);
  for (size_t i = 0; i < rows.size(); i++)
    EXPECT_EQ(rows[i], std::vector<int64_t>(out.profile->sample[i]->value, out.profile->sample[i]->value + 3))
        << i;
}

} // namespace
