// What adding a sample does, as seen in the encoded profile.
#include "tests/unit/core/support.h"

#include <climits>

using namespace support;

namespace {

const Frame kLeaf = {"leaf", "a.rb", 3}, kRoot = {"<main>", "main.rb", 1};

TEST(Add, FreshProfileHasItsStringsAndNothingElse) {
  Profile profile;
  Decoded decoded = profile.Decode();
  EXPECT_EQ(decoded.strings(), (std::vector<std::string>{"", "local root span id", "trace endpoint",
                                                         "end_timestamp_ns", "cpu", "ns", "n", "count"}));
  EXPECT_EQ(decoded->n_sample, 0u);
  EXPECT_EQ(decoded->n_location, 0u);
  EXPECT_EQ(decoded->n_mapping, 0u);
  EXPECT_EQ(decoded->n_function, 0u);
  EXPECT_EQ(decoded->period_type, nullptr);
  EXPECT_EQ(decoded->period, 0);
}

TEST(Add, EqualSamplesAreAddedUp) {
  Profile profile;
  EXPECT_EQ(profile.Add({kLeaf, kRoot}, {10, 1}, {Text("thread", "t1")}), "");
  EXPECT_EQ(profile.Add({kLeaf, kRoot}, {5, 1}, {Text("thread", "t1")}), "");
  EXPECT_EQ(profile.Add({kLeaf}, {7, 1}, {Text("thread", "t1")}), "");
  EXPECT_EQ(profile.Add({kLeaf, kRoot}, {1, 1}, {Text("thread", "t2")}), "");
  EXPECT_EQ(profile.Decode().samples(),
            (std::vector<Sample>{{{"leaf a.rb:3", "<main> main.rb:1"}, {15, 2}, {"thread=t1"}},
                                 {{"leaf a.rb:3"}, {7, 1}, {"thread=t1"}},
                                 {{"leaf a.rb:3", "<main> main.rb:1"}, {1, 1}, {"thread=t2"}}}));
}

TEST(Add, ValuesThatComeUpLaterJoinTheSameSample) {
  Profile profile(Types{{"a", ""}, {"b", ""}, {"c", ""}});
  profile.Add({kLeaf}, {0, 0, 0});
  profile.Add({kLeaf}, {0, 2, 0});
  profile.Add({kRoot}, {9, 0, 0});
  profile.Add({kLeaf}, {1, 0, 0});
  profile.Add({kLeaf}, {0, 0, -4});
  profile.Add({kLeaf}, {1, 1, 1});
  profile.Add({kRoot}, {0, 0, 8});
  auto samples = profile.Decode().samples();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].values, (std::vector<int64_t>{2, 3, -3}));
  EXPECT_EQ(samples[1].values, (std::vector<int64_t>{9, 0, 8}));
}

TEST(Add, ManySampleTypesKeepAllColumns) {
  Types types;
  std::vector<int64_t> values;
  for (int i = 0; i < 300; i++) {
    types.push_back({"t" + std::to_string(i), "u"});
    values.push_back(i % 7 ? i : 0);
  }
  Profile profile(types);
  EXPECT_EQ(profile.Add({kLeaf}, values), "");
  EXPECT_EQ(profile.Add({kLeaf}, values), "");
  EXPECT_EQ(profile.Add({kLeaf}, values, {}, 77), "");
  auto samples = profile.Decode().samples();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].values, values);
  for (int i = 0; i < 300; i++) EXPECT_EQ(samples[1].values[i], 2 * values[i]);
}

TEST(Add, SumsWrapAround) {
  Profile profile(Types{{"a", ""}});
  profile.Add({}, {INT64_MAX});
  profile.Add({}, {2});
  EXPECT_EQ(profile.Decode().samples()[0].values, (std::vector<int64_t>{INT64_MIN + 1}));
}

TEST(Add, ASampleWithATimestampStaysByItself) {
  Profile profile;
  profile.Add({kLeaf}, {1, 1}, {Text("k", "v")});
  profile.Add({kLeaf}, {2, 0}, {Text("k", "v")}, 1000);
  profile.Add({kLeaf}, {2, 0}, {Text("k", "v")}, 1000);
  profile.Add({kLeaf}, {0, INT64_MIN}, {Text("k", "v")}, -5);
  profile.Add({}, {INT64_MAX, 255}, {}, INT64_MAX);
  profile.Add({}, {256, 65536}, {}, INT64_MIN);
  EXPECT_EQ(profile.Decode().samples(),
            (std::vector<Sample>{{{"leaf a.rb:3"}, {2, 0}, {"k=v", "end_timestamp_ns=#1000"}},
                                 {{"leaf a.rb:3"}, {2, 0}, {"k=v", "end_timestamp_ns=#1000"}},
                                 {{"leaf a.rb:3"}, {0, INT64_MIN}, {"k=v", "end_timestamp_ns=#-5"}},
                                 {{}, {INT64_MAX, 255}, {"end_timestamp_ns=#9223372036854775807"}},
                                 {{}, {256, 65536}, {"end_timestamp_ns=#-9223372036854775808"}},
                                 {{"leaf a.rb:3"}, {1, 1}, {"k=v"}}}));
}

TEST(Add, TimelineKeepsEveryShapeOfValues) {
  // 9 columns whose widths differ give far more shapes than a record can number.
  Types types(9, {"t", "u"});
  Profile profile(types);
  std::vector<std::vector<int64_t>> expected;
  for (int n = 0; n < 2000; n++) {
    std::vector<int64_t> values;
    for (int i = 0; i < 9; i++) {
      int width = (n * 7 + i * (n % 13)) % 10;
      values.push_back(width == 0   ? 0
                       : width == 9 ? -n
                                    : (int64_t{1} << (8 * (width - 1))) + (width > 1 ? n % 50 : 0));
    }
    expected.push_back(values);
    ASSERT_EQ(profile.Add({{"f" + std::to_string(n % 40), "x", n}}, values, {Number("n", n)},
                          n * 1000003LL % 777 + 1),
              "");
  }
  auto samples = profile.Decode().samples();
  ASSERT_EQ(samples.size(), expected.size());
  for (size_t n = 0; n < samples.size(); n++) {
    EXPECT_EQ(samples[n].values, expected[n]) << n;
    EXPECT_EQ(samples[n].labels[0], "n=#" + std::to_string(n));
    EXPECT_EQ(samples[n].labels[1], "end_timestamp_ns=#" + std::to_string(n * 1000003LL % 777 + 1));
  }
}

TEST(Add, ReusedPointersWithOtherBytesAreNotBelieved) {
  Profile profile(Types{{"a", ""}});
  char name[] = "name_1", file[] = "/app/models/some_file_1.rb", key[] = "key_1", text[] = "text_1";
  for (char c = '1'; c <= '9'; c++) {
    for (int again = 0; again < 3; again++) {
      for (char *digit : {name + 5, file + 22, key + 4, text + 5}) {
        *digit = c;
        ddog_prof_Location location = {};
        location.function.name = {name, sizeof name - 1};
        location.function.filename = {file, sizeof file - 1};
        ddog_prof_Label label = {{key, sizeof key - 1}, {text, sizeof text - 1}, 0, {nullptr, 0}};
        int64_t one = 1;
        ASSERT_EQ(
            TextOf(ddog_prof_Profile_add(profile.handle(), {{&location, 1}, {&one, 1}, {&label, 1}}, 0)), "");
      }
    }
  }
  int64_t total = 0;
  auto samples = profile.Decode().samples();
  EXPECT_EQ(samples.size(), 1u + 8 * 4); // each change of one digit is another sample
  for (const auto &sample : samples) total += sample.values[0];
  EXPECT_EQ(total, 9 * 3 * 4);
}

TEST(Add, EqualBytesAtOtherAddressesAreTheSame) {
  Profile profile(Types{{"a", ""}});
  for (int i = 0; i < 100; i++) {
    std::string pad(static_cast<size_t>(i), ' ');
    std::string name = pad + "method_name", file = pad + "/usr/lib/ruby/file.rb";
    ddog_prof_Location location = {};
    location.function.name = {name.data() + i, name.size() - static_cast<size_t>(i)};
    location.function.filename = {file.data() + i, file.size() - static_cast<size_t>(i)};
    int64_t one = 1;
    ASSERT_EQ(TextOf(ddog_prof_Profile_add(profile.handle(), {{&location, 1}, {&one, 1}, {nullptr, 0}}, 0)),
              "");
  }
  auto samples = profile.Decode().samples();
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].values[0], 100);
}

TEST(Add, NamesOfEveryLengthAreToldApart) {
  Profile profile(Types{{"a", ""}});
  for (int round = 0; round < 3; round++)
    for (size_t len = 0; len <= 200; len++)
      for (size_t change = 0; change <= len; change += 1 + len / 9) {
        std::string text(len, 'x');
        if (change < len) text[change] = 'y';
        ASSERT_EQ(profile.Add({{text, "f", 1}, {"n", text, 2}}, {1}, {Text(text + "k", text + "v")}), "");
      }
  auto samples = profile.Decode().samples();
  std::map<std::string, int> seen;
  for (const auto &sample : samples) {
    EXPECT_EQ(sample.values[0], 3);
    EXPECT_EQ(seen[sample.stack[0] + sample.labels[0]]++, 0);
  }
}

TEST(Add, EveryFieldOfAFrameCounts) {
  Profile profile(Types{{"a", ""}});
  Frame base = {"n", "f", 1};
  std::vector<Frame> frames(13, base);
  frames[1].name = "n2";
  frames[2].filename = "f2";
  frames[3].line = 2;
  frames[4].system_name = "s";
  frames[5].start_line = -1;
  frames[6].address = 1;
  frames[7].memory_start = 1;
  frames[8].memory_limit = 1;
  frames[9].file_offset = 1;
  frames[10].mapping_filename = "m";
  frames[11].build_id = "b";
  frames[12].line = INT64_MIN;
  for (int round = 0; round < 3; round++)
    for (const Frame &frame : frames) ASSERT_EQ(profile.Add({frame}, {1}), "");
  Decoded decoded = profile.Decode();
  ASSERT_EQ(decoded->n_sample, frames.size());
  EXPECT_EQ(decoded->n_location, frames.size());
  EXPECT_EQ(decoded->n_function, 5u);
  ASSERT_EQ(decoded->n_mapping, 6u);
  EXPECT_EQ(decoded->mapping[0]->memory_start, 0u);
  EXPECT_EQ(decoded->mapping[1]->memory_start, 1u);
  EXPECT_EQ(decoded->mapping[2]->memory_limit, 1u);
  EXPECT_EQ(decoded->mapping[3]->file_offset, 1u);
  EXPECT_STREQ(decoded->string_table[decoded->mapping[4]->filename], "m");
  EXPECT_STREQ(decoded->string_table[decoded->mapping[5]->build_id], "b");
  EXPECT_EQ(decoded->location[6]->address, 1u);
  EXPECT_EQ(decoded->location[12]->line[0]->line, INT64_MIN);
  EXPECT_EQ(decoded->function[decoded->location[5]->line[0]->function_id - 1]->start_line, -1);
  for (size_t i = 0; i < decoded->n_sample; i++) EXPECT_EQ(decoded->sample[i]->value[0], 3);
}

TEST(Add, StringsGetTheirIdsInThePromisedOrder) {
  Profile profile(Types{{"a", "b"}});
  Frame frame = {"name", "file", 1, "system", 0, 0, 1, 0, 0, "mapping", "build"};
  profile.Add({frame, {"name2", "file2", 1}}, {1}, {Text("k1", "v1"), Number("k2", 1, "unit")});
  std::vector<std::string> strings = profile.Decode().strings();
  EXPECT_EQ(std::vector<std::string>(strings.begin() + 6, strings.end()),
            (std::vector<std::string>{"k1", "v1", "k2", "unit", "mapping", "build", "name", "system", "file",
                                      "name2", "file2"}));
}

TEST(Add, ARefusedSampleChangesNothing) {
  Profile profile;
  Profile untouched;
  EXPECT_NE(profile.Add({kLeaf, {"new", "new.rb", 1}, {"bad\xff", "x", 1}}, {1, 1}, {Text("nk", "nv")}), "");
  EXPECT_NE(profile.Add({{"other", "o.rb", 1}}, {1}, {Text("nk", "nv")}), "");
  EXPECT_NE(profile.Add({{"third", "t.rb", 1}}, {1, 1}, {Text("nk", "nv"), Text("nk", "nw")}), "");
  EXPECT_EQ(profile.Decode().raw().size(), untouched.Decode().raw().size());
}

TEST(Add, DeepStacksAndManyLabels) {
  Profile profile(Types{{"a", ""}});
  std::vector<Frame> frames;
  std::vector<Label> labels;
  for (int i = 0; i < 100000; i++) frames.push_back({"f" + std::to_string(i % 30000), "f.rb", i % 3});
  for (int i = 0; i < 65536; i++) labels.push_back(Number("k" + std::to_string((i * 7919) % 65536), i));
  EXPECT_EQ(profile.Add(frames, {1}, labels), "");
  EXPECT_EQ(profile.Add(frames, {1}, labels), "");
  EXPECT_EQ(profile.Add(frames, {5}, labels, 9), "");
  auto samples = profile.Decode().samples();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].stack.size(), 100000u);
  EXPECT_EQ(samples[0].labels.size(), 65537u);
  EXPECT_EQ(samples[1].labels.size(), 65536u);
  EXPECT_EQ(samples[1].values[0], 2);
  EXPECT_EQ(samples[1].labels[0], "k0=#0");
  EXPECT_EQ(samples[1].labels[1], "k7919=#1");
}

TEST(Add, LimitsAreErrorsThatSaySo) {
  Profile profile(Types{{"a", ""}});
  int64_t one = 1;
  ddog_prof_Location location = {};
  ddog_prof_Label label = {};
  std::string text(DDOG_PROF_MAX_STRING_BYTES + 1, 'x');
  EXPECT_EQ(
      TextOf(ddog_prof_Profile_add(
          profile.handle(), {{&location, DDOG_PROF_MAX_FRAMES_PER_SAMPLE + 1}, {&one, 1}, {nullptr, 0}}, 0)),
      "ddog_prof_Profile_add failed: a stack of 1048577 frames is deeper than the limit of 1048576");
  EXPECT_EQ(
      TextOf(ddog_prof_Profile_add(
          profile.handle(), {{nullptr, 0}, {&one, 1}, {&label, DDOG_PROF_MAX_LABELS_PER_SAMPLE + 1}}, 0)),
      "ddog_prof_Profile_add failed: 1048577 labels are more than the limit of 1048576");
  EXPECT_EQ(profile.Add({{text, "", 0}}, {1}),
            "ddog_prof_Profile_add failed: a text of 67108865 bytes is longer than the limit of 67108864");
  location.function.name = {nullptr, 5};
  EXPECT_EQ(TextOf(ddog_prof_Profile_add(profile.handle(), {{&location, 1}, {&one, 1}, {nullptr, 0}}, 0)),
            "ddog_prof_Profile_add failed: a text has 5 bytes, but its pointer is null");
  EXPECT_EQ(TextOf(ddog_prof_Profile_add(profile.handle(), {{nullptr, 3}, {&one, 1}, {nullptr, 0}}, 0)),
            "ddog_prof_Profile_add failed: a slice of the sample has a length, but its pointer is null");
  EXPECT_EQ(profile.Decode()->n_sample, 0u);
}

} // namespace
