#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lz4frame.h>

#include "tests/unit/reader/support.h"

using namespace reader_test;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

struct Format {
  const char *name;
  Bytes (*compress)(const Bytes &);
};

// Half of it compresses well, half not at all.
Bytes Text(size_t size) {
  Bytes text;
  uint32_t random = 1;
  while (text.size() < size) {
    random = random * 1664525 + 1013904223;
    text +=
        text.size() / 4096 % 2 ? static_cast<char>(random >> 24) : static_cast<char>('a' + text.size() % 7);
  }
  return text;
}

Bytes LittleEndian(uint32_t value) {
  Bytes out;
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift);
  return out;
}

Bytes Skippable(const Bytes &content) {
  return LittleEndian(0x184D2A53) + LittleEndian(content.size()) + content;
}

class DecompressFormat : public testing::TestWithParam<Format> {};

TEST_P(DecompressFormat, GivesBackWhatWasCompressed) {
  for (size_t size : {0u, 1u, 100u, 65535u, 65536u, 65537u, 131072u, 3000000u})
    EXPECT_EQ(Text(size), Decompress(GetParam().compress(Text(size)))) << size;
}

TEST_P(DecompressFormat, JoinsFramesInARow) {
  auto compress = GetParam().compress;
  EXPECT_EQ("onetwo" + Text(70000),
            Decompress(compress("one") + compress("") + compress("two") + compress(Text(70000))));
}

TEST_P(DecompressFormat, SaysThatDataIsTruncatedWhereverItIsCut) {
  Bytes whole = GetParam().compress(Text(5000));
  for (size_t cut = 4; cut < whole.size(); cut++) {
    ASSERT_EQ("error: truncated " + std::string(GetParam().name) + " data: the end is missing after " +
                  std::to_string(cut) + " bytes",
              Decompress(whole.substr(0, cut)));
  }
}

TEST_P(DecompressFormat, SaysThatASecondFrameIsTruncated) {
  Bytes one = GetParam().compress("one"), two = one + GetParam().compress("two");
  for (size_t cut = one.size() + 4; cut < two.size(); cut++)
    ASSERT_THAT(Decompress(two.substr(0, cut)), StartsWith("error: truncated ")) << cut;
}

TEST_P(DecompressFormat, RefusesBytesThatFollow) {
  for (Bytes more : {Bytes("x"), Bytes("garbage"), Bytes(1, '\0'), Bytes(64, '\0')})
    EXPECT_THAT(
        Decompress(GetParam().compress("one") + more),
        StartsWith("error: " + std::to_string(more.size()) + " bytes that are no " + GetParam().name));
}

TEST_P(DecompressFormat, NeverCrashesOnFlippedBits) {
  Bytes plain = Text(2500), whole = GetParam().compress(plain);
  size_t refused = 0;
  for (size_t bit = 0; bit < whole.size() * 8; bit++) {
    Bytes flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    refused += Decompress(flipped).rfind("error: ", 0) == 0;
  }
  EXPECT_GT(refused, 0u);
}

TEST_P(DecompressFormat, AllowsExactlyTheLimit) {
  for (size_t size : {1u, 65535u, 65536u, 65537u, 200000u}) {
    Bytes file = GetParam().compress(Text(size));
    EXPECT_EQ(Text(size), Decompress(file, size));
    EXPECT_EQ("error: the profile is larger than " + std::to_string(size - 1) +
                  " bytes when uncompressed, which is the limit",
              Decompress(file, size - 1));
  }
}

TEST_P(DecompressFormat, StopsABombAtTheLimit) {
  Bytes bomb = GetParam().compress(Bytes(64 << 20, '\0'));
  ASSERT_LT(bomb.size(), 1u << 20);
  EXPECT_THAT(Decompress(bomb, 1 << 20), HasSubstr("larger than 1048576 bytes"));
  // As many small frames as one file can hold.
  Bytes many;
  for (int i = 0; i < 1500; i++) many += GetParam().compress(Bytes(1000, 'x'));
  EXPECT_THAT(Decompress(many, 1 << 20), HasSubstr("larger than 1048576 bytes"));
}

INSTANTIATE_TEST_SUITE_P(Formats, DecompressFormat,
                         testing::Values(Format{"gzip", Gzip}, Format{"LZ4", Lz4}, Format{"zstd", Zstd}),
                         [](const testing::TestParamInfo<Format> &info) {
                           return std::string(info.param.name);
                         });

TEST(DecompressPlain, TakesBytesWithoutMagicNumberAsTheyAre) {
  EXPECT_EQ("hello", Decompress("hello"));
  EXPECT_EQ("\x1f", Decompress("\x1f"));
  EXPECT_EQ("hello", Decompress("hello", 5));
  EXPECT_THAT(Decompress("hello", 4), HasSubstr("larger than 4 bytes"));
}

TEST(DecompressPlain, RefusesAnEmptyFile) {
  EXPECT_EQ("error: the profile is empty (0 bytes)", Decompress(""));
}

TEST(DecompressGzip, NamesDamage) {
  Bytes file = Gzip(Text(9000));
  file[file.size() - 8] ^= 1;
  EXPECT_THAT(Decompress(file), HasSubstr("damaged gzip data"));
  EXPECT_THAT(Decompress(file), HasSubstr("incorrect data check"));
  EXPECT_THAT(Decompress("\x1f\x8b and no more of gzip"), HasSubstr("damaged gzip data"));
}

TEST(DecompressGzip, ReadsHeadersWithNameAndComment) {
  Bytes file = Gzip("content");
  file[3] = 0x18; // FNAME, FCOMMENT
  file.insert(10, Bytes("name\0comment\0", 13));
  EXPECT_EQ("content", Decompress(file));
}

TEST(DecompressLz4, DoesNotBelieveAHugeContentSize) {
  LZ4F_preferences_t preferences = {};
  preferences.frameInfo.contentSize = 8;
  Bytes out(1024, '\0');
  size_t size = LZ4F_compressFrame(&out[0], out.size(), "12345678", 8, &preferences);
  ASSERT_FALSE(LZ4F_isError(size));
  out.resize(size);
  EXPECT_EQ("12345678", Decompress(out));
  for (size_t i = 6; i < 14; i++) out[i] = '\x7f'; // the size; the header's checksum no longer fits either
  EXPECT_THAT(Decompress(out), HasSubstr("damaged LZ4 data"));
}

TEST(DecompressZstd, DoesNotBelieveAHugeContentSize) {
  // A frame header that promises 2^62 bytes in a single segment, then one empty last block.
  Bytes frame = LittleEndian(0xFD2FB528) + '\xe0' + Bytes("\0\0\0\0\0\0\0\x40", 8) + Bytes("\1\0\0", 3);
  EXPECT_THAT(Decompress(frame), StartsWith("error: damaged zstd data"));
}

TEST(DecompressSkippable, StepsOverSkippableFrames) {
  EXPECT_EQ("one", Decompress(Skippable("anything") + Lz4("one")));
  EXPECT_EQ("one", Decompress(Skippable("anything") + Zstd("one")));
  EXPECT_EQ("onetwo", Decompress(Lz4("one") + Skippable("anything") + Skippable("") + Lz4("two")));
  EXPECT_EQ("onetwo", Decompress(Zstd("one") + Skippable("anything") + Skippable("") + Zstd("two")));
  EXPECT_EQ("", Decompress(Skippable("anything")));
  EXPECT_THAT(Decompress(Skippable("anything").substr(0, 12)), StartsWith("error: truncated"));
}

TEST(DecompressMixed, RefusesOneFormatAfterAnother) {
  EXPECT_THAT(Decompress(Lz4("one") + Zstd("two")), HasSubstr("no LZ4 frame follow"));
  EXPECT_THAT(Decompress(Zstd("one") + Gzip("two")), HasSubstr("no zstd frame follow"));
  EXPECT_THAT(Decompress(Gzip("one") + Lz4("two")), HasSubstr("no gzip member follow"));
}

} // namespace
