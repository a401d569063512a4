// Protobuf to structs: contents, strings, and what is said about bytes that are no profile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/reader/support.h"

using namespace reader_test;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

Bytes WithStrings(const std::vector<std::string> &strings) {
  Profile p;
  p.strings = {""};
  p.strings.insert(p.strings.end(), strings.begin(), strings.end());
  return p.Pack();
}

void ExpectGood(const Pprof__Profile &p) {
  ASSERT_EQ(2u, p.n_sample_type);
  EXPECT_STREQ("cpu-samples", p.string_table[p.sample_type[1]->type]);
  EXPECT_STREQ("count", p.string_table[p.sample_type[1]->unit]);
  ASSERT_EQ(2u, p.n_sample);
  ASSERT_EQ(2u, p.sample[0]->n_location_id);
  EXPECT_EQ(2u, p.sample[0]->location_id[1]);
  ASSERT_EQ(2u, p.sample[0]->n_value);
  EXPECT_EQ(10, p.sample[0]->value[0]);
  ASSERT_EQ(2u, p.sample[0]->n_label);
  EXPECT_STREQ("1 (2)", p.string_table[p.sample[0]->label[0]->str]);
  EXPECT_EQ(5, p.sample[0]->label[1]->num);
  ASSERT_EQ(2u, p.n_location);
  EXPECT_EQ(8, p.location[1]->line[0]->line);
  ASSERT_EQ(2u, p.n_function);
  EXPECT_STREQ("app.rb", p.string_table[p.function[0]->filename]);
  ASSERT_EQ(10u, p.n_string_table);
}

TEST(Read, GivesTheContentsInEveryCompression) {
  Bytes plain = Good().Pack();
  for (const Bytes &file : {plain, Gzip(plain), Lz4(plain), Zstd(plain)}) WithProfile(file, ExpectGood);
}

TEST(Read, GivesTheContentsOfAProfileSplitIntoFrames) {
  Bytes plain = Good().Pack();
  for (size_t cut = 1; cut < plain.size(); cut += 7) {
    Bytes left = plain.substr(0, cut), right = plain.substr(cut);
    for (const Bytes &file : {Gzip(left) + Gzip(right), Lz4(left) + Lz4(right), Zstd(left) + Zstd(right)})
      WithProfile(file, ExpectGood);
  }
}

TEST(Read, TakesRepeatedNumbersPackedOrNot) {
  Profile p = Good();
  p.samples.clear();
  Bytes sample =
      Tag(1, 0) + Varint(1) + Tag(1, 0) + Varint(2) + Tag(2, 0) + Varint(10) + Tag(2, 0) + Varint(1);
  WithProfile(p.Pack() + Field(2, sample), [](const Pprof__Profile &read) {
    ASSERT_EQ(1u, read.n_sample);
    ASSERT_EQ(2u, read.sample[0]->n_location_id);
    EXPECT_EQ(2u, read.sample[0]->location_id[1]);
    ASSERT_EQ(2u, read.sample[0]->n_value);
    EXPECT_EQ(10, read.sample[0]->value[0]);
  });
}

TEST(Read, StepsOverUnknownFields) {
  Bytes unknown =
      Field(15, "more") + Tag(99, 0) + Varint(UINT64_MAX) + Tag(100, 1) + "12345678" + Tag(101, 5) + "1234";
  WithProfile(unknown + Good().Pack() + unknown, ExpectGood);
}

TEST(Read, DropAcceptsNull) { nf_reader_drop(nullptr); }

// ---- Strings ----

TEST(ReadStrings, AcceptsEveryLengthOfUtf8) {
  for (const char *good :
       {"\x01\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa9z\xf0\x9f\x92\xa9"}) {
    WithProfile(WithStrings({good}), [&](const Pprof__Profile &p) { EXPECT_STREQ(good, p.string_table[1]); });
  }
}

TEST(ReadStrings, RefusesEveryKindOfBadUtf8AndSaysWhere) {
  for (const char *bad : {"\x80",
                          "\xbf",
                          "\xc0\x80",
                          "\xc1\xbf",
                          "\xc2",
                          "\xc2\x41",
                          "\xdf\xc0",
                          "\xe0\x9f\xbf",
                          "\xe0",
                          "\xe1\x80",
                          "\xe1\x80\x41",
                          "\xed\xa0\x80",
                          "\xed\xbf\xbf",
                          "\xef\xbf",
                          "\xf0\x8f\xbf\xbf",
                          "\xf0\x90\x80",
                          "\xf1\x80\x80\x41",
                          "\xf1\x80\x41\x80",
                          "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80",
                          "\xfe",
                          "\xff"}) {
    for (size_t before = 0; before < 20; before++) {
      for (const char *after : {"", "z", "zzzzzzzzzzzzzzzzz"}) {
        // What comes after must not turn an incomplete sequence into a whole one.
        EXPECT_EQ("string 2 is not UTF-8 (byte " + std::to_string(before) + " of it)",
                  ReadError(WithStrings({"fine", Bytes(before, 'a') + bad + after})));
      }
    }
  }
}

TEST(ReadStrings, LooksBehindANul) {
  EXPECT_EQ("string 1 is not UTF-8 (byte 2 of it)", ReadError(WithStrings({Bytes("a\0\xff", 3)})));
}

TEST(ReadStrings, ShowsNulAsASymbolSoThatNoNameIsCutShort) {
  WithProfile(WithStrings({Bytes("a\0b", 3), "plain", Bytes("\0", 1), Bytes("a\0c\0", 4)}),
              [](const Pprof__Profile &p) {
                EXPECT_STREQ("", p.string_table[0]);
                EXPECT_STREQ("a\xe2\x90\x80"
                             "b",
                             p.string_table[1]);
                EXPECT_STREQ("plain", p.string_table[2]);
                EXPECT_STREQ("\xe2\x90\x80", p.string_table[3]);
                EXPECT_STREQ("a\xe2\x90\x80"
                             "c\xe2\x90\x80",
                             p.string_table[4]);
              });
}

TEST(ReadStrings, DoesNotTakeANulForAnEmptyString0) {
  Profile p;
  p.strings = {Bytes("\0", 1)};
  EXPECT_EQ("string 0 is not empty", ReadError(p.Pack()));
}

// ---- What is no profile ----

TEST(ReadNoProfile, SaysThatAnEmptyFileIsEmpty) {
  EXPECT_EQ("the profile is empty (0 bytes)", ReadError(""));
  for (const Bytes &file : {Gzip(""), Lz4(""), Zstd("")})
    EXPECT_EQ("not a pprof profile: it has no string table", ReadError(file));
}

TEST(ReadNoProfile, RefusesOtherFiles) {
  for (const Bytes &file :
       {Bytes("hello"), Bytes("{\"json\": 1}"), Bytes("<html>"),
        Bytes("\x7f"
              "ELF\x02\x01\x01"),
        Bytes("#!/bin/sh\n"), Bytes("--- symbol\n"), Bytes("PK\x03\x04"), Bytes("\xef\xbb\xbftext"),
        Bytes(100, '\0'), Bytes(100, '\xff'), Bytes("goroutine profile: total 1\n")}) {
    EXPECT_THAT(ReadError(file), testing::AnyOf(StartsWith("not a pprof profile: "), HasSubstr("truncated")))
        << file;
    EXPECT_THAT(ReadError(Gzip(file)),
                testing::AnyOf(StartsWith("not a pprof profile: "), HasSubstr("truncated")));
  }
}

TEST(ReadNoProfile, SaysWhereProtobufEnds) {
  Bytes good = Good().Pack();
  EXPECT_EQ("not a pprof profile: no protobuf field at byte " + std::to_string(good.size()),
            ReadError(good + Tag(20, 3)));
  EXPECT_EQ("not a pprof profile: no protobuf field at byte " + std::to_string(good.size()),
            ReadError(good + Tag(20, 7)));
  EXPECT_EQ("not a pprof profile: a field with number 0 at byte " + std::to_string(good.size()),
            ReadError(good + Tag(0, 2) + Varint(0)));
  EXPECT_EQ("not a pprof profile: a number of more than 10 bytes at byte " + std::to_string(good.size()),
            ReadError(good + Tag(9, 0) + Bytes(11, '\x80')));
  EXPECT_EQ("the profile is truncated: it ends in the middle of the field at byte " +
                std::to_string(good.size()),
            ReadError(good + Tag(2, 2) + Varint(100) + "short"));
}

TEST(ReadNoProfile, RefusesKnownFieldsOfAnotherType) {
  Bytes good = Good().Pack();
  for (unsigned field : {1, 2, 3, 4, 5, 6, 11})
    EXPECT_THAT(ReadError(good + Tag(field, 0) + Varint(1)), HasSubstr("a field of the wrong type")) << field;
  for (unsigned field : {7, 8, 9, 10, 12, 14})
    EXPECT_THAT(ReadError(good + Field(field, "12345678")), HasSubstr("a field of the wrong type")) << field;
  for (unsigned field = 1; field <= 14; field++) {
    EXPECT_THAT(ReadError(good + Tag(field, 1) + "12345678"), HasSubstr("a field of the wrong type"))
        << field;
    EXPECT_THAT(ReadError(good + Tag(field, 5) + "1234"), HasSubstr("a field of the wrong type")) << field;
  }
}

TEST(ReadNoProfile, RefusesBrokenMessagesInside) {
  Bytes good = Good().Pack();
  for (unsigned field : {1, 2, 3, 4, 5, 11})
    for (const Bytes &inside :
         {Bytes("\xff"), Bytes("\x08"), Bytes("\x0a\x7f"), Bytes("\x0b"), Bytes("\x07")})
      EXPECT_EQ("not a pprof profile: protobuf cannot unpack one of its messages",
                ReadError(good + Field(field, inside)))
          << field;
}

} // namespace
