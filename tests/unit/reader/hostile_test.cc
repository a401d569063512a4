// Input made to hurt: cut, flipped, huge by its own account, nested, or small but hungry. The reader must
// answer with an error (or a checked profile), within its memory. The sanitizer builds see to the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/reader/support.h"

using namespace reader_test;
using testing::HasSubstr;

namespace {

TEST(Hostile, EveryTruncationOfAPlainProfileIsRefused) {
  Profile p = Good();
  p.has_period_type = false; // nothing would miss it; so the last string, which a label needs, is the end
  Bytes good = p.Pack();
  EXPECT_EQ("", ReadError(good));
  for (size_t cut = 0; cut < good.size(); cut++) EXPECT_NE("", ReadError(good.substr(0, cut))) << cut;
}

TEST(Hostile, EveryTruncationOfACompressedProfileIsRefused) {
  Bytes good = Good().Pack();
  for (const Bytes &file : {Gzip(good), Lz4(good), Zstd(good)})
    for (size_t cut = 0; cut < file.size(); cut++) EXPECT_NE("", ReadError(file.substr(0, cut))) << cut;
}

TEST(Hostile, EveryFlippedBitIsSurvived) {
  Bytes good = Good().Pack();
  size_t refused = 0, all = 0;
  for (const Bytes &file : {good, Gzip(good), Lz4(good), Zstd(good)}) {
    for (size_t bit = 0; bit < file.size() * 8; bit++) {
      Bytes flipped = file;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
      refused += ReadError(flipped) != "";
      all++;
    }
  }
  EXPECT_GT(refused, all / 2);
}

TEST(Hostile, RandomBytesInEveryPlaceAreSurvived) {
  std::mt19937_64 random(20241201);
  Bytes good = Good().Pack();
  for (int i = 0; i < 20000; i++) {
    Bytes file = good;
    for (size_t n = random() % 8 + 1; n; n--) {
      size_t at = random() % file.size();
      switch (random() % 4) {
      case 0:
        file[at] = static_cast<char>(random());
        break;
      case 1:
        file.erase(at, random() % 4);
        break;
      case 2:
        file.insert(at, Bytes(random() % 4, static_cast<char>(random())));
        break;
      default:
        file.insert(at, file.substr(random() % file.size(), random() % 32));
        break;
      }
      if (file.empty()) file = good;
    }
    ReadError(file);
  }
}

TEST(Hostile, GarbageNestedInEveryMessageIsSurvived) {
  std::mt19937_64 random(7);
  Bytes good = Good().Pack();
  for (int i = 0; i < 20000; i++) {
    Bytes inside;
    for (size_t n = random() % 12; n; n--)
      inside += static_cast<char>(random() % 4 ? random() % 32 : random());
    for (size_t depth = random() % 4; depth; depth--) inside = Field(random() % 6, inside);
    ReadError(good + Field(random() % 15 + 1, inside));
  }
}

TEST(Hostile, DeclaredLengthsBeyondTheEndAreRefused) {
  Bytes good = Good().Pack();
  for (uint64_t length : {uint64_t{6}, uint64_t{1} << 31, (uint64_t{1} << 32) - 1, uint64_t{1} << 32,
                          uint64_t{1} << 62, uint64_t{1} << 63, UINT64_MAX - 1, UINT64_MAX}) {
    for (unsigned field = 1; field <= 20; field++) {
      EXPECT_THAT(ReadError(good + Tag(field, 2) + Varint(length) + "short"), HasSubstr("truncated"));
      EXPECT_NE("", ReadError(good + Field(2, Tag(field, 2) + Varint(length) + "short")));
      EXPECT_NE("", ReadError(good + Field(2, Field(3, Tag(field, 2) + Varint(length) + "short"))));
    }
  }
}

TEST(Hostile, DepthCostsNothing) {
  // The schema nests three levels; deeper ones are unknown fields and are not entered.
  Bytes nested;
  for (int i = 0; i < 2000; i++) nested = Field(2, nested);
  EXPECT_NE("", ReadError(nested));
  EXPECT_NE("", ReadError(Good().Pack() + nested));
}

TEST(Hostile, FullMemoryIsAnErrorNotAnAbyss) {
  // Two bytes make an empty sample, which takes about a hundred bytes of memory.
  Bytes many = Good().Pack();
  for (int i = 0; i < 500000; i++) many += Field(2, "");
  EXPECT_EQ("the profile needs more than " +
                std::to_string(many.size() * NF_READER_MEMORY_FACTOR + (1 << 20)) +
                " bytes of memory, which is the limit",
            ReadError(many, many.size()));
  // The same through a bomb.
  EXPECT_THAT(ReadError(Gzip(many), many.size()), HasSubstr("bytes of memory"));
}

TEST(Hostile, TheMemoryLimitIsHeldAtEveryStep) {
  Bytes good = Good().Pack();
  size_t refused = 0;
  for (size_t limit = 0; limit < 8192; limit++) {
    Pprof__Profile *profile = nullptr;
    nf_error error = {};
    if (nf_reader_unpack(reinterpret_cast<const uint8_t *>(good.data()), good.size(), limit, &profile,
                         &error)) {
      nf_reader_drop(profile);
      continue;
    }
    EXPECT_EQ(nullptr, profile);
    EXPECT_EQ("the profile needs more than " + std::to_string(limit) + " bytes of memory, which is the limit",
              std::string(error.text));
    nf_error_deinit(&error);
    refused++;
  }
  EXPECT_GT(refused, 500u);
  EXPECT_LT(refused, 8192u);
}

TEST(Hostile, LimitsAtTheEndsOfSizeAreFine) {
  Bytes good = Good().Pack();
  EXPECT_EQ("", ReadError(good, SIZE_MAX));
  EXPECT_EQ("", ReadError(Gzip(good), SIZE_MAX));
  EXPECT_EQ("", ReadError(Lz4(good), SIZE_MAX));
  EXPECT_EQ("", ReadError(Zstd(good), SIZE_MAX - 1));
  EXPECT_THAT(ReadError(good, 0), HasSubstr("larger than 0 bytes"));
  EXPECT_THAT(ReadError(Gzip(good), 0), HasSubstr("larger than 0 bytes"));
}

} // namespace
