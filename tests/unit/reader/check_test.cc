// Each rule broken once in a profile that is otherwise right: the checker must say which, and where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/reader/support.h"

using namespace reader_test;

namespace {

using Spoil = void (*)(Profile &);

struct Case {
  const char *name;
  Spoil spoil;
  const char *error;
};

std::string Name(const testing::TestParamInfo<Case> &info) { return info.param.name; }

class BrokenForAll : public testing::TestWithParam<Case> {};

TEST_P(BrokenForAll, IsRefusedByBothRules) {
  Profile p = Good();
  GetParam().spoil(p);
  EXPECT_EQ(GetParam().error, CheckError(p, NF_READER_RULES_PPROF));
  EXPECT_NE("", CheckError(p, NF_READER_RULES_OURS));
  EXPECT_EQ(GetParam().error, ReadError(p.Pack()));
}

const Case kBroken[] = {
    {"String0", [](Profile &p) { p.strings[0] = "x"; }, "string 0 is not empty"},
    {"NoSampleTypes", [](Profile &p) { p.sample_types.clear(); }, "there are 2 samples, but no sample types"},
    {"SampleTypeString", [](Profile &p) { p.sample_types[1].type = 10; },
     "sample type 1: its type is string 10, but there are 10 strings"},
    {"SampleTypeUnit", [](Profile &p) { p.sample_types[0].unit = -1; },
     "sample type 0: its unit is string -1, but there are 10 strings"},
    {"PeriodType", [](Profile &p) { p.period_type.type = INT64_MAX; },
     "period type 0: its type is string 9223372036854775807, but there are 10 strings"},
    {"PeriodUnit", [](Profile &p) { p.period_type.unit = INT64_MIN; },
     "period type 0: its unit is string -9223372036854775808, but there are 10 strings"},
    {"Comment",
     [](Profile &p) {
       p.comments = {1, 10};
     },
     "comment 1: its text is string 10, but there are 10 strings"},
    {"DropFrames", [](Profile &p) { p.drop_frames = 10; },
     "drop_frames is string 10, but there are 10 strings"},
    {"KeepFrames", [](Profile &p) { p.keep_frames = -1; },
     "keep_frames is string -1, but there are 10 strings"},
    {"DefaultSampleType", [](Profile &p) { p.default_sample_type = 99; },
     "default_sample_type is string 99, but there are 10 strings"},
    {"MappingId0", [](Profile &p) { p.mappings[1].id = 0; }, "mapping number 1 has id 0, which is reserved"},
    {"FunctionId0", [](Profile &p) { p.functions[0].id = 0; },
     "function number 0 has id 0, which is reserved"},
    {"LocationId0", [](Profile &p) { p.locations[1].id = 0; },
     "location number 1 has id 0, which is reserved"},
    {"MappingTwice", [](Profile &p) { p.mappings[1].id = 1; }, "two mappings have the id 1"},
    {"FunctionTwice", [](Profile &p) { p.functions[0].id = 2; }, "two functions have the id 2"},
    {"LocationTwice", [](Profile &p) { p.locations[0].id = 2; }, "two locations have the id 2"},
    {"MappingFilename", [](Profile &p) { p.mappings[1].filename = 10; },
     "mapping 2: its filename is string 10, but there are 10 strings"},
    {"MappingBuildId", [](Profile &p) { p.mappings[0].build_id = -5; },
     "mapping 1: its build_id is string -5, but there are 10 strings"},
    {"FunctionName", [](Profile &p) { p.functions[1].name = 10; },
     "function 2: its name is string 10, but there are 10 strings"},
    {"FunctionSystemName", [](Profile &p) { p.functions[0].system_name = 11; },
     "function 1: its system_name is string 11, but there are 10 strings"},
    {"FunctionFilename", [](Profile &p) { p.functions[0].filename = 12; },
     "function 1: its filename is string 12, but there are 10 strings"},
    {"LocationMapping", [](Profile &p) { p.locations[1].mapping = 3; },
     "location 2 refers to mapping 3, which does not exist"},
    {"LocationFunction",
     [](Profile &p) {
       p.locations[0].lines.push_back({UINT64_MAX, 0});
     },
     "location 1, line 1 refers to function 18446744073709551615, which does not exist"},
    {"LineWithoutFunction", [](Profile &p) { p.locations[0].lines[0].function = 0; },
     "location 1, line 0 refers to function 0, which does not exist"},
    {"SampleLocation",
     [](Profile &p) {
       p.samples[1].locations = {1, 99};
     },
     "sample 1 refers to location 99, which does not exist"},
    {"SampleLocation0", [](Profile &p) { p.samples[0].locations = {0}; },
     "sample 0 refers to location 0, which does not exist"},
    {"TooFewValues", [](Profile &p) { p.samples[1].values = {1}; },
     "sample 1 has 1 values, but there are 2 sample types"},
    {"TooManyValues",
     [](Profile &p) {
       p.samples[0].values = {1, 2, 3};
     },
     "sample 0 has 3 values, but there are 2 sample types"},
    {"NoValues", [](Profile &p) { p.samples[0].values = {}; },
     "sample 0 has 0 values, but there are 2 sample types"},
    {"LabelKey", [](Profile &p) { p.samples[0].labels[1].key = 10; },
     "sample 0, label 1: its key is string 10, but there are 10 strings"},
    {"LabelStr", [](Profile &p) { p.samples[0].labels[0].str = -1; },
     "sample 0, label 0: its str is string -1, but there are 10 strings"},
    {"LabelUnit", [](Profile &p) { p.samples[0].labels[1].num_unit = 10; },
     "sample 0, label 1: its num_unit is string 10, but there are 10 strings"},
    {"SparseSampleLocation",
     [](Profile &p) {
       p.locations[1].id = 1000;
       p.samples[0].locations = {1, 1000};
       p.samples[1].locations = {2};
     },
     "sample 1 refers to location 2, which does not exist"},
    {"SparseLocationMapping", [](Profile &p) { p.mappings[1].id = UINT64_MAX; },
     "location 2 refers to mapping 2, which does not exist"},
};

INSTANTIATE_TEST_SUITE_P(Check, BrokenForAll, testing::ValuesIn(kBroken), Name);

class BrokenForOurs : public testing::TestWithParam<Case> {};

TEST_P(BrokenForOurs, IsRefusedByOurRulesOnly) {
  Profile p = Good();
  GetParam().spoil(p);
  EXPECT_EQ("", CheckError(p, NF_READER_RULES_PPROF));
  EXPECT_EQ("", ReadError(p.Pack()));
  EXPECT_EQ(GetParam().error, CheckError(p, NF_READER_RULES_OURS));
}

const Case kNotOurs[] = {
    {"StringTwice", [](Profile &p) { p.strings.push_back("main"); },
     "the string table holds a string of 4 bytes twice"},
    {"EmptyStringTwice", [](Profile &p) { p.strings.push_back(""); },
     "the string table holds a string of 0 bytes twice"},
    {"SparseIds", [](Profile &p) { p.mappings[1].id = p.locations[1].mapping = 7; },
     "mapping number 1 has id 7 instead of 2"},
    {"SwappedIds", [](Profile &p) { std::swap(p.functions[0].id, p.functions[1].id); },
     "function number 0 has id 2 instead of 1"},
    {"SwappedLocations", [](Profile &p) { std::swap(p.locations[0], p.locations[1]); },
     "location number 0 has id 2 instead of 1"},
    {"NoLine", [](Profile &p) { p.locations[1].lines.clear(); }, "location 2 has 0 lines instead of one"},
    {"TwoLines",
     [](Profile &p) {
       p.locations[0].lines.push_back({2, 5});
     },
     "location 1 has 2 lines instead of one"},
    {"NoMapping", [](Profile &p) { p.locations[0].mapping = 0; }, "location 1 has no mapping"},
    {"Folded", [](Profile &p) { p.locations[0].is_folded = true; },
     "location 1 is folded, which we never write"},
    {"MappingFlags", [](Profile &p) { p.mappings[0].has_functions = true; },
     "mapping 1 has flags that we never write"},
    {"Comments", [](Profile &p) { p.comments = {1}; }, "the profile has comments, which we never write"},
    {"DropFrames", [](Profile &p) { p.drop_frames = 5; },
     "the profile has drop_frames, which we never write"},
    {"KeepFrames", [](Profile &p) { p.keep_frames = 5; },
     "the profile has keep_frames, which we never write"},
    {"DefaultSampleType", [](Profile &p) { p.default_sample_type = 1; },
     "the profile has default_sample_type, which we never write"},
    {"KeyTwice", [](Profile &p) { p.samples[0].labels[1].key = 7; },
     "sample 0 has two labels whose key is string 7"},
    {"TextAndNumber", [](Profile &p) { p.samples[0].labels[0].num = 1; },
     "sample 0, label 0 is both text and number"},
    {"TextAndUnit", [](Profile &p) { p.samples[0].labels[0].num_unit = 8; },
     "sample 0, label 0 is both text and number"},
};

INSTANTIATE_TEST_SUITE_P(Check, BrokenForOurs, testing::ValuesIn(kNotOurs), Name);

TEST(Check, AcceptsAGoodProfile) {
  EXPECT_EQ("", CheckError(Good(), NF_READER_RULES_PPROF));
  EXPECT_EQ("", CheckError(Good(), NF_READER_RULES_OURS));
}

TEST(Check, AcceptsTheSmallestProfile) {
  Profile p;
  p.strings = {""};
  EXPECT_EQ("", CheckError(p, NF_READER_RULES_PPROF));
  EXPECT_EQ("", CheckError(p, NF_READER_RULES_OURS));
}

TEST(Check, AcceptsSamplesWithoutLocationsAndLabelsOfZero) {
  Profile p = Good();
  p.samples = {{{}, {1, 2}, {{0, 0, 0, 0}}}};
  EXPECT_EQ("", CheckError(p, NF_READER_RULES_PPROF));
  EXPECT_EQ("", CheckError(p, NF_READER_RULES_OURS));
}

TEST(Check, AcceptsTraceEndpointTwiceButNotThrice) {
  Profile p = Good();
  p.strings[7] = "trace endpoint";
  p.samples[0].labels = {{7, 5, 0, 0}, {7, 6, 0, 0}};
  EXPECT_EQ("", CheckError(p, NF_READER_RULES_OURS));
  p.samples[0].labels.push_back({7, 5, 0, 0});
  EXPECT_EQ("sample 0 has two labels whose key is string 7", CheckError(p, NF_READER_RULES_OURS));
}

TEST(Check, ResolvesAnyUniqueIds) {
  Profile p = Good();
  p.mappings[0].id = p.locations[0].mapping = UINT64_MAX;
  p.functions[0].id = p.locations[0].lines[0].function = UINT64_MAX - 1;
  p.locations[0].id = 1ull << 63;
  p.samples[0].locations = {1ull << 63, 2, 2, 1ull << 63};
  EXPECT_EQ("", CheckError(p, NF_READER_RULES_PPROF));
}

TEST(Check, ResolvesHundredThousandSparseIds) {
  Profile p = Good();
  p.locations.clear();
  p.samples[0].locations.clear();
  p.samples[1].locations.clear();
  for (uint64_t i = 0; i < 100000; i++) {
    p.locations.push_back({i * 7919 + 3, 0, {}, false});
    p.samples[0].locations.push_back(i * 7919 + 3);
  }
  EXPECT_EQ("", CheckError(p, NF_READER_RULES_PPROF));
  p.samples[0].locations.back() = 4;
  EXPECT_EQ("sample 0 refers to location 4, which does not exist", CheckError(p, NF_READER_RULES_PPROF));
}

} // namespace
