// The rules for labels, and what they become.
#include "tests/unit/core/support.h"

using namespace support;

namespace {

const char kPrefix[] = "ddog_prof_Profile_add failed: ";

std::string Refusal(const std::vector<Label> &labels) {
  Profile profile(Types{{"a", ""}});
  std::string text = profile.Add({}, {1}, labels);
  EXPECT_EQ(text.rfind(kPrefix, 0), 0u) << text;
  EXPECT_EQ(profile.Decode()->n_sample, 0u);
  return text.substr(sizeof kPrefix - 1);
}

TEST(Labels, OrderIsThatOfFirstSightInTheProfile) {
  Profile profile(Types{{"a", ""}});
  profile.Add({}, {1}, {Text("z", "1"), Text("a", "1")});
  profile.Add({}, {1}, {Text("a", "1"), Text("z", "1")});
  profile.Add({}, {1}, {Text("m", "1"), Text("a", "1")});
  auto samples = profile.Decode().samples();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].labels, (std::vector<std::string>{"z=1", "a=1"}));
  EXPECT_EQ(samples[0].values[0], 2);
  EXPECT_EQ(samples[1].labels, (std::vector<std::string>{"a=1", "m=1"}));
}

TEST(Labels, ATextHidesNumberAndUnit) {
  Profile profile(Types{{"a", ""}});
  profile.Add({}, {1}, {{"k", "text", 5, "unit"}});
  profile.Add({}, {1}, {{"k", "text", 6, ""}});
  Decoded decoded = profile.Decode();
  ASSERT_EQ(decoded->n_sample, 1u);
  EXPECT_EQ(decoded.samples()[0].labels, (std::vector<std::string>{"k=text"}));
  for (const auto &s : decoded.strings()) EXPECT_NE(s, "unit");
}

TEST(Labels, NumbersAndUnitsAreToldApart) {
  Profile profile(Types{{"a", ""}});
  profile.Add({}, {1}, {Number("k", 0)});
  profile.Add({}, {1}, {Number("k", 0, "ms")});
  profile.Add({}, {1}, {Number("k", -1, "ms")});
  profile.Add({}, {1}, {Number("", 7)});
  auto samples = profile.Decode().samples();
  ASSERT_EQ(samples.size(), 4u);
  EXPECT_EQ(samples[0].labels[0], "k=#0");
  EXPECT_EQ(samples[1].labels[0], "k=#0 ms");
  EXPECT_EQ(samples[2].labels[0], "k=#-1 ms");
  EXPECT_EQ(samples[3].labels[0], "=#7");
}

TEST(Labels, AHiddenUnitMustBeUtf8Too) {
  Profile profile(Types{{"a", ""}});
  EXPECT_EQ(profile.Add({}, {1}, {{"k", "text", 0, ""}}), "");
  EXPECT_EQ(profile.Add({}, {1}, {{"k", "text", 0, "\xff"}}),
            "ddog_prof_Profile_add failed: invalid utf-8 sequence of 1 bytes from index 0");
}

TEST(Labels, AHiddenUnitMakesNothingNew) {
  Profile profile(Types{{"a", ""}});
  EXPECT_EQ(profile.Add({}, {1}, {{"k", "text", 0, "unit"}}), "");
  EXPECT_EQ(TextOf(ddog_prof_Profile_set_budget(profile.handle(), 1)), "");
  EXPECT_EQ(profile.Add({}, {1}, {{"k", "text", 5, "another"}}), "");
  EXPECT_EQ(profile.Decode().samples(), (std::vector<Sample>{{{}, {2}, {"k=text"}}}));
}

TEST(Labels, AKeyComesOnce) {
  EXPECT_EQ(Refusal({Text("k", "v"), Number("x", 1), Number("k", 2, "u")}),
            "Duplicate label on sample: Label { key: \"k\", str: Some(\"v\"), num: 0, num_unit: None } "
            "Label { key: \"k\", str: None, num: 2, num_unit: Some(\"u\") }");
}

TEST(Labels, AKeyComesOnceAlsoWhenAllLabelsAreKnown) {
  Profile profile(Types{{"a", ""}});
  profile.Add({}, {1}, {Text("k", "v")});
  profile.Add({}, {1}, {Text("k", "w")});
  EXPECT_NE(profile.Add({}, {1}, {Text("k", "v"), Text("k", "w")}), "");
  std::vector<Label> many;
  for (int i = 0; i < 200; i++) many.push_back(Number("n" + std::to_string(i), i));
  EXPECT_EQ(profile.Add({}, {1}, many), "");
  EXPECT_EQ(profile.Add({}, {1}, many), "");
  profile.Add({}, {1}, {Number("n7", 1)});
  many.push_back(Number("n7", 1));
  EXPECT_NE(profile.Add({}, {1}, many), "");
}

TEST(Labels, LocalRootSpanIdIsANumberOtherThanZero) {
  EXPECT_EQ(
      Refusal({Text("local root span id", "x")}),
      "Invalid \"local root span id\" label: Label { key: \"local root span id\", str: Some(\"x\"), num: 0, "
      "num_unit: None }");
  EXPECT_EQ(Refusal({Number("local root span id", 0)}),
            "Invalid \"local root span id\" label: Label { key: \"local root span id\", str: None, num: 0, "
            "num_unit: None }");
  Profile profile(Types{{"a", ""}});
  EXPECT_EQ(profile.Add({}, {1}, {Number("local root span id", -1)}), "");
}

TEST(Labels, TheTimestampIsNotALabel) {
  EXPECT_EQ(Refusal({Number("end_timestamp_ns", 5)}),
            "Timestamp should not be passed as a label Label { key: \"end_timestamp_ns\", str: None, num: 5, "
            "num_unit: None }");
}

TEST(Labels, MessagesEscapeWhatCannotBeSeen) {
  std::string key("q\"\\\n\r\t\0\x01\x7f\xc2\x85'\xc3\xa9", 14);
  std::string text = Refusal({Text(key, "1"), Text(key, "2")});
  EXPECT_NE(text.find("key: \"q\\\"\\\\\\n\\r\\t\\0\\u{1}\\u{7f}\\u{85}'\xc3\xa9\""), std::string::npos)
      << text;
}

TEST(Labels, TheOrderOfChecks) {
  Profile profile(Types{{"a", ""}});
  // UTF-8 comes before the number of values, that before the labels' rules; labels are looked at one by one.
  EXPECT_EQ(profile.Add({{"\xff", "", 0}}, {}, {Text("\xe2\x82", "")}),
            "ddog_prof_Profile_add failed: invalid utf-8 sequence of 1 bytes from index 0");
  EXPECT_EQ(profile.Add({}, {}, {Text("k", "\xe2\x82"), Text("k", "1")}),
            "ddog_prof_Profile_add failed: incomplete utf-8 byte sequence from index 0");
  EXPECT_EQ(profile.Add({}, {1, 2}, {Text("k", "1"), Text("k", "1")}),
            "ddog_prof_Profile_add failed: expected 1 sample types, but sample had 2 sample types");
  EXPECT_EQ(
      profile.Add({}, {1}, {Number("end_timestamp_ns", 1), Text("k", "1"), Text("k", "1")}).substr(0, 73),
      "ddog_prof_Profile_add failed: Timestamp should not be passed as a label L");
}

TEST(Endpoints, SamplesBeforeAndAfterGetTheName) {
  Profile profile(Types{{"a", ""}});
  profile.Add({}, {1}, {Number("local root span id", 7), Text("x", "1")});
  EXPECT_EQ(profile.SetEndpoint(7, "first"), "");
  EXPECT_EQ(profile.SetEndpoint(7, "Users#show\xff"), "");
  EXPECT_EQ(profile.SetEndpoint(UINT64_MAX, ""), "");
  profile.Add({}, {1}, {Number("local root span id", 7)}, 5);
  profile.Add({}, {1}, {Number("local root span id", 8)});
  profile.Add({}, {1}, {Number("local root span id", -1)});
  EXPECT_EQ(profile.Decode().samples(),
            (std::vector<Sample>{
                {{},
                 {1},
                 {"local root span id=#7", "trace endpoint=Users#show\xef\xbf\xbd", "end_timestamp_ns=#5"}},
                {{}, {1}, {"local root span id=#7", "x=1", "trace endpoint=Users#show\xef\xbf\xbd"}},
                {{}, {1}, {"local root span id=#8"}},
                {{}, {1}, {"local root span id=#-1", "trace endpoint=#0"}}}));
  profile.Add({}, {1}, {Number("local root span id", 7)});
  EXPECT_EQ(profile.Decode().samples()[0].labels, (std::vector<std::string>{"local root span id=#7"}));
}

} // namespace
