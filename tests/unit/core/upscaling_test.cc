// Upscaling rules: what is refused with which words, and what they do to values.
#include "tests/unit/core/support.h"

#include <climits>
#include <clocale>

using namespace support;

namespace {

using Values = std::vector<int64_t>;

const Types kThree = {{"a", ""}, {"b", ""}, {"c", ""}};

Values Upscaled(Profile &profile, const Values &values, const std::vector<Label> &labels = {},
                int64_t timestamp = 0) {
  EXPECT_EQ(profile.Add({}, values, labels, timestamp), "");
  return profile.Decode().samples().at(0).values;
}

TEST(Upscaling, PoissonScalesByTheAverage) {
  Profile profile(kThree);
  EXPECT_EQ(profile.Poisson({1, 2}, "", "", 1, 2, 10), "");
  EXPECT_EQ(Upscaled(profile, {7, 16, 29}), (Values{7, 298, 540}));
}

TEST(Upscaling, PoissonLeavesAZeroSumOrCount) {
  Profile profile(kThree);
  profile.Poisson({0, 1, 2}, "", "", 1, 2, 10);
  EXPECT_EQ(Upscaled(profile, {5, 0, 29}), (Values{5, 0, 29}));
  profile.Poisson({0, 1, 2}, "", "", 1, 2, 10);
  EXPECT_EQ(Upscaled(profile, {5, 16, 0}), (Values{5, 16, 0}));
}

TEST(Upscaling, PoissonOfANegativeAverage) {
  Profile profile(kThree);
  profile.Poisson({0, 1, 2}, "", "", 0, 1, 10);
  EXPECT_EQ(Upscaled(profile, {-5, 1, 7}), (Values{8, -2, -11}));
}

TEST(Upscaling, AnInfiniteScaleSaturates) {
  Profile profile(kThree);
  profile.Poisson({0, 1, 2}, "", "", 0, 1, UINT64_MAX);
  EXPECT_EQ(Upscaled(profile, {1, 1, 0}), (Values{INT64_MAX, INT64_MAX, 0}));
  profile.Proportional({0, 1, 2}, "", "", 1, UINT64_MAX);
  EXPECT_EQ(Upscaled(profile, {-1, 2, 0}), (Values{INT64_MIN, INT64_MAX, 0}));
}

TEST(Upscaling, HalvesAreRoundedAwayFromZero) {
  Profile profile(kThree);
  profile.Proportional({0, 1, 2}, "", "", 2, 1);
  EXPECT_EQ(Upscaled(profile, {-1, -3, 5}), (Values{-1, -2, 3}));
}

TEST(Upscaling, ALabelsRuleConcernsItsSamplesOnly) {
  Profile profile(kThree);
  EXPECT_EQ(profile.Proportional({0}, "k", "v", 1, 2), "");
  EXPECT_EQ(profile.Proportional({1}, "k", "", 1, 3), ""); // numbers of that name
  EXPECT_EQ(profile.Proportional({2}, "", "", 1, 5), "");
  profile.Add({}, {1, 1, 1}, {Text("k", "v")});
  profile.Add({}, {1, 1, 1}, {Text("k", "w")});
  profile.Add({}, {1, 1, 1}, {Number("k", 9)});
  profile.Add({}, {1, 1, 1}, {Text("other", "v")});
  auto samples = profile.Decode().samples();
  EXPECT_EQ(samples[0].values, (Values{2, 1, 5}));
  EXPECT_EQ(samples[1].values, (Values{1, 1, 5}));
  EXPECT_EQ(samples[2].values, (Values{1, 3, 5}));
  EXPECT_EQ(samples[3].values, (Values{1, 1, 5}));
}

TEST(Upscaling, RulesFollowTheOrderOfTheLabels) {
  // 3 * 1/2 -> 2 (half away from zero), then * 3; the other way round 9 / 2 -> 5.
  Profile profile(kThree);
  profile.Proportional({0}, "first", "1", 2, 1);
  profile.Proportional({0}, "second", "1", 1, 3);
  profile.Add({}, {0, 0, 0}, {Text("first", "1")});
  profile.Add({}, {3, 0, 0}, {Text("second", "1"), Text("first", "1")});
  EXPECT_EQ(profile.Decode().samples()[1].values[0], 6);
}

TEST(Upscaling, EndpointAndTimestampCountAsLabels) {
  Profile profile(kThree);
  profile.SetEndpoint(7, "Users#show");
  EXPECT_EQ(profile.Proportional({0}, "trace endpoint", "Users#show", 1, 2), "");
  EXPECT_EQ(profile.Proportional({1}, "end_timestamp_ns", "", 1, 3), "");
  EXPECT_EQ(Upscaled(profile, {1, 1, 1}, {Number("local root span id", 7)}, 99), (Values{2, 3, 1}));
}

TEST(Upscaling, ARepeatedOffsetIsScaledOnce) {
  Profile profile(kThree);
  profile.Proportional({1, 0, 1}, "", "", 1, 2);
  EXPECT_EQ(Upscaled(profile, {1, 1, 1}), (Values{2, 2, 1}));
}

TEST(Upscaling, RulesEndWithThePeriod) {
  Profile profile(kThree);
  profile.Proportional({0}, "", "", 1, 2);
  profile.Decode();
  EXPECT_EQ(Upscaled(profile, {1, 1, 1}), (Values{1, 1, 1}));
}

TEST(Upscaling, ParametersAreCheckedFirst) {
  Profile profile(kThree);
  EXPECT_EQ(
      profile.Poisson({9}, "name", "value", 9, 9, 0),
      "ddog_prof_Profile_add_upscaling_rule_poisson sampling_distance parameter must be greater than 0");
  for (auto pair : {std::pair<uint64_t, uint64_t>{0, 1}, {1, 0}})
    EXPECT_EQ(profile.Proportional({9}, "name", "value", pair.first, pair.second),
              "total_sampled and total_real parameters must not be equal to 0");
  EXPECT_EQ(profile.Poisson({1, 3}, "name", "value", 9, 9, 1), "Invalid offset. Highest expected offset: 3");
  EXPECT_EQ(profile.Poisson({1}, "name", "value", 0, 3, 1),
            "sum_value_offset 0 and count_value_offset 3 must be strictly less than 3");
  // Names are kept from the second check on, as in version 6.
  std::vector<std::string> strings = profile.Decode().strings();
  EXPECT_EQ(std::vector<std::string>(strings.end() - 2, strings.end()),
            (std::vector<std::string>{"name", "value"}));
}

TEST(Upscaling, CollisionsNameBothRules) {
  Profile profile(Types{{"a", ""}, {"b", ""}, {"c", ""}, {"d", ""}});
  EXPECT_EQ(profile.Proportional({2, 0}, "a", "b", 2, 5), "");
  EXPECT_EQ(
      profile.Poisson({3, 0}, "a", "b", 1, 2, 10),
      "There are duplicated by-label rules for the same label name: a with at least one value offset in "
      "common.\nExisting rule Some(UpscalingRule { upscaling_info: Proportional { scale: 2.5 }, "
      "values_offset: [0, 2] })\nNew rule a b [0, 3] Poisson { sum_value_offset: 1, count_value_offset: 2, "
      "sampling_distance: 10 }");
  EXPECT_EQ(profile.Proportional({3, 2, 0}, "", "", 3, 1),
            "The by-value rule is colliding with at least one by-label rule at offset Some(0)\n"
            "by-value rule values offset(s) [0, 2, 3]");
  EXPECT_EQ(profile.Poisson({3}, "", "", 1, 2, 10), "");
  EXPECT_EQ(
      profile.Proportional({1, 3}, "c", "d", 3, 1),
      "The by-label rule (label name c, label value d) is colliding with a by-value rule on values offsets\n"
      "Existing values offset(s) Some(UpscalingRule { upscaling_info: Poisson { sum_value_offset: 1, "
      "count_value_offset: 2, sampling_distance: 10 }, values_offset: [3] }), new rule values offset(s) [1, 3]");
  EXPECT_EQ(profile.Proportional({1}, "a", "b", 3, 1), "");    // no offset in common
  EXPECT_EQ(profile.Proportional({2, 0}, "a", "x", 3, 1), ""); // another value of the label
}

TEST(Upscaling, ARuleOnOffset32DoesNotBlockOffset0) {
  Profile profile(Types(40, {"t", "u"}));
  EXPECT_EQ(profile.Proportional({32}, "k", "v", 1, 2), "");
  EXPECT_EQ(profile.Proportional({0}, "", "", 1, 2), "");
  EXPECT_NE(profile.Proportional({32}, "", "", 1, 2), "");
}

std::string Shown(uint64_t sampled, uint64_t real) {
  Profile profile(Types{{"a", ""}});
  profile.Proportional({0}, "", "", sampled, real);
  std::string text = profile.Proportional({0}, "", "", sampled, real);
  size_t at = text.rfind("scale: ") + 7;
  return text.substr(at, text.rfind(" }") - at);
}

TEST(Upscaling, ScalesAreShownAsShortDecimals) {
  auto show = [] {
    EXPECT_EQ(Shown(2, 5), "2.5");
    EXPECT_EQ(Shown(1, 1), "1.0");
    EXPECT_EQ(Shown(3, 1), "0.3333333333333333");
    EXPECT_EQ(Shown(1, 100000000), "100000000.0");
    EXPECT_EQ(Shown(1, 10000000000000000u), "1e16");
    EXPECT_EQ(Shown(1, UINT64_MAX), "1.8446744073709552e19");
    EXPECT_EQ(Shown(10000, 1), "0.0001");
    EXPECT_EQ(Shown(10001, 1), "9.999000099990002e-5");
    EXPECT_EQ(Shown(100001, 3), "2.999970000299997e-5");
    EXPECT_EQ(Shown(64, 65363806854834), "1021309482106.7813"); // the very middle goes up
    EXPECT_EQ(Shown(8, 1), "0.125");
    EXPECT_EQ(Shown(1000, 12345), "12.345");
  };
  show();
  // Nor does the host's locale matter.
  for (const char *name : {"de_DE.UTF-8", "fr_FR.UTF-8"})
    if (std::setlocale(LC_NUMERIC, name)) show();
  std::setlocale(LC_NUMERIC, "C");
}

} // namespace
