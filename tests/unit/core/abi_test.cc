// Handles, errors and drops: whatever order a caller does things in, nothing is freed twice and nothing is followed that is not there.
#include "tests/unit/core/support.h"

using namespace support;

namespace {

std::string AfterDrop(const char *function) {
  return std::string(function) + " failed: profile's inner pointer was null (indicates use-after-free)";
}
std::string Null(const char *function) { return std::string(function) + " failed: profile pointer was null"; }

TEST(Handles, NullAndDroppedOnesAreErrors) {
  ddog_prof_Profile dropped = {nullptr};
  for (ddog_prof_Profile *p : {static_cast<ddog_prof_Profile *>(nullptr), &dropped}) {
    auto text = [&](const char *function) { return p ? AfterDrop(function) : Null(function); };
    EXPECT_EQ(TextOf(ddog_prof_Profile_add(p, {}, 0)), text("ddog_prof_Profile_add"));
    EXPECT_EQ(TextOf(ddog_prof_Profile_set_endpoint(p, 1, {})), text("ddog_prof_Profile_set_endpoint"));
    EXPECT_EQ(TextOf(ddog_prof_Profile_add_endpoint_count(p, {}, 1)),
              text("ddog_prof_Profile_add_endpoint_count"));
    EXPECT_EQ(TextOf(ddog_prof_Profile_add_upscaling_rule_poisson(p, {}, {}, {}, 0, 0, 0)),
              text("ddog_prof_Profile_add_upscaling_rule_poisson"));
    EXPECT_EQ(TextOf(ddog_prof_Profile_add_upscaling_rule_proportional(p, {}, {}, {}, 0, 0)),
              text("ddog_prof_Profile_add_upscaling_rule_poisson")); // version 6 names that one
    EXPECT_EQ(TextOf(ddog_prof_Profile_reset(p, nullptr)), text("ddog_prof_Profile_reset"));
    EXPECT_EQ(TextOf(ddog_prof_Profile_set_budget(p, 1)), text("ddog_prof_Profile_set_budget"));
    auto serialized = ddog_prof_Profile_serialize(p, nullptr, nullptr, nullptr);
    ASSERT_EQ(serialized.tag, DDOG_PROF_PROFILE_SERIALIZE_RESULT_ERR);
    EXPECT_EQ(TextOf(&serialized.err), text("ddog_prof_Profile_serialize"));
    EXPECT_EQ(ddog_prof_Profile_stats(p).memory_bytes, 0u);
  }
}

TEST(Handles, DropsAreHarmlessTwice) {
  ddog_prof_Profile_drop(nullptr);
  auto made = ddog_prof_Profile_new({nullptr, 0}, nullptr, nullptr);
  ASSERT_EQ(made.tag, DDOG_PROF_PROFILE_NEW_RESULT_OK);
  auto serialized = ddog_prof_Profile_serialize(&made.ok, nullptr, nullptr, nullptr);
  ASSERT_EQ(serialized.tag, DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK);
  EXPECT_GT(serialized.ok.buffer.len, 0u);
  EXPECT_GE(serialized.ok.buffer.capacity, serialized.ok.buffer.len);
  EXPECT_EQ(ddog_Vec_U8_as_slice(&serialized.ok.buffer).ptr, serialized.ok.buffer.ptr);
  EXPECT_EQ(ddog_Vec_U8_as_slice(&serialized.ok.buffer).len, serialized.ok.buffer.len);
  ddog_prof_EncodedProfile_drop(&serialized.ok);
  EXPECT_EQ(serialized.ok.buffer.ptr, nullptr);
  EXPECT_EQ(serialized.ok.endpoints_stats, nullptr);
  ddog_prof_EncodedProfile_drop(&serialized.ok);
  ddog_prof_EncodedProfile_drop(nullptr);
  ddog_prof_Profile_drop(&made.ok);
  EXPECT_EQ(made.ok.inner, nullptr);
  ddog_prof_Profile_drop(&made.ok);
}

TEST(Errors, MessageAndDrop) {
  auto result = ddog_prof_Profile_reset(nullptr, nullptr);
  ASSERT_EQ(result.tag, DDOG_PROF_PROFILE_RESULT_ERR);
  ddog_CharSlice message = ddog_Error_message(&result.err);
  EXPECT_EQ(std::string(message.ptr, message.len),
            "ddog_prof_Profile_reset failed: profile pointer was null");
  for (int i = 0; i < 2; i++) {
    ddog_Error_drop(&result.err);
    message = ddog_Error_message(&result.err);
    EXPECT_NE(message.ptr, nullptr);
    EXPECT_EQ(message.len, 0u);
    EXPECT_EQ(result.err.message.capacity, 0u);
  }
  ddog_Error_drop(nullptr);
  EXPECT_NE(ddog_Error_message(nullptr).ptr, nullptr);
  EXPECT_EQ(ddog_Error_message(nullptr).len, 0u);
  EXPECT_EQ(ddog_Vec_U8_as_slice(nullptr).len, 0u);
}

TEST(Utf8, EveryFaultAtEveryPlace) {
  struct Case {
    const char *bytes;
    const char *text; // I stands for the index
  };
  const Case cases[] = {{"\xff", "invalid utf-8 sequence of 1 bytes from index I"},
                        {"\x80", "invalid utf-8 sequence of 1 bytes from index I"},
                        {"\xc0\x80", "invalid utf-8 sequence of 1 bytes from index I"},
                        {"\xe2\x82X", "invalid utf-8 sequence of 2 bytes from index I"},
                        {"\xe0\x80\x80", "invalid utf-8 sequence of 1 bytes from index I"},
                        {"\xed\xa0\x80", "invalid utf-8 sequence of 1 bytes from index I"},
                        {"\xf0\x9f\x92X", "invalid utf-8 sequence of 3 bytes from index I"},
                        {"\xf0\x80\x80\x80", "invalid utf-8 sequence of 1 bytes from index I"},
                        {"\xf4\x90\x80\x80", "invalid utf-8 sequence of 1 bytes from index I"},
                        {"\xf5", "invalid utf-8 sequence of 1 bytes from index I"},
                        {"\xc3", "incomplete utf-8 byte sequence from index I"},
                        {"\xe2\x82", "incomplete utf-8 byte sequence from index I"},
                        {"\xf0\x9f\x92", "incomplete utf-8 byte sequence from index I"}};
  Profile profile(Types{{"a", ""}});
  for (const Case &c : cases)
    for (size_t before = 0; before < 40; before++) {
      std::string good;
      while (good.size() < before) good += before % 3 == 0 && good.size() + 2 <= before ? "\xc3\xa9" : "x";
      std::string expected = "ddog_prof_Profile_add failed: " + std::string(c.text);
      expected.replace(expected.find('I', 40), 1, std::to_string(before));
      std::string bad = good + c.bytes;
      for (int field = 0; field < 8; field++) {
        Frame frame = {"n", "f", 1};
        Label label = Text("k", "v");
        std::string *fields[] = {&frame.mapping_filename, &frame.build_id, &frame.name, &frame.system_name,
                                 &frame.filename,         &label.key,      &label.str,  &label.unit};
        *fields[field] = bad;
        ASSERT_EQ(profile.Add({frame}, {1}, {label}), expected) << field;
      }
    }
  EXPECT_EQ(profile.Add({{"\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\xc2\x80", "f", 1}}, {1}), "");
  EXPECT_EQ(profile.Decode()->n_sample, 1u);
}

TEST(Utf8, LossyTextsGetOneMarkForEachFault) {
  Profile profile(Types{{"a", ""}});
  profile.Add({}, {1}, {Number("local root span id", 1)});
  profile.SetEndpoint(1, "\xff"
                         "a\xe2\x82"
                         "b\xf0\x9f\x92");
  EXPECT_EQ(profile.Decode().samples()[0].labels[1], "trace endpoint=\xef\xbf\xbd"
                                                     "a\xef\xbf\xbd"
                                                     "b\xef\xbf\xbd");
}

} // namespace
