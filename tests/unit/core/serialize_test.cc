// What serializing gives: times, codecs, statistics, an empty profile; and that the encoder's own writers
// give the bytes that protobuf-c gives.
#include "tests/unit/core/support.h"

#include <lz4frame.h>

#include <climits>
#include <cstring>

#include "core/endpoint_stats.h"

using namespace support;

namespace {

ddog_prof_EncodedProfile Serialize(Profile &profile, const ddog_Timespec *end, const int64_t *duration,
                                   const ddog_Timespec *next = nullptr) {
  auto result = ddog_prof_Profile_serialize(profile.handle(), end, duration, next);
  EXPECT_EQ(result.tag, DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK);
  return result.ok;
}

struct Times {
  int64_t start, duration;
};

Times TimesOf(ddog_Timespec start, ddog_Timespec end, const int64_t *duration = nullptr) {
  Profile profile(Types{}, start);
  auto encoded = Serialize(profile, &end, duration);
  Decoded decoded(encoded.buffer.ptr, encoded.buffer.len);
  ddog_prof_EncodedProfile_drop(&encoded);
  return {decoded->time_nanos, decoded->duration_nanos};
}

TEST(Times, StartAndDuration) {
  Times t = TimesOf({1700000000, 5}, {1700000060, 7});
  EXPECT_EQ(t.start, 1700000000000000005);
  EXPECT_EQ(t.duration, 60000000002);
  int64_t given = 0;
  EXPECT_EQ(TimesOf({5, 0}, {7, 0}, &given).duration, 0);
  given = 123;
  EXPECT_EQ(TimesOf({5, 0}, {7, 0}, &given).duration, 123);
  given = -1;
  EXPECT_EQ(TimesOf({5, 0}, {7, 0}, &given).duration, 2000000000);
  EXPECT_EQ(TimesOf({7, 0}, {5, 0}).duration, 0); // ends before it begins
}

TEST(Times, WhatDoesNotFitIsKeptWithin) {
  EXPECT_EQ(TimesOf({-5, 0}, {1, 0}).start, 0); // before the epoch
  EXPECT_EQ(TimesOf({-5, 0}, {1, 0}).duration, 6000000000);
  Times t = TimesOf({INT64_MAX, UINT32_MAX}, {INT64_MAX, UINT32_MAX});
  EXPECT_EQ(t.start, INT64_MAX);
  EXPECT_EQ(t.duration, 0);
  EXPECT_EQ(TimesOf({INT64_MIN, 0}, {INT64_MAX, UINT32_MAX}).duration, INT64_MAX);
  // The last nanosecond that fits is 9223372036.854775807 s.
  EXPECT_EQ(TimesOf({9223372036, 854775806}, {0, 0}).start, INT64_MAX - 1);
  EXPECT_EQ(TimesOf({9223372036, 854775807}, {0, 0}).start, INT64_MAX);
  EXPECT_EQ(TimesOf({9223372036, 854775808}, {0, 0}).start, INT64_MAX);
  EXPECT_EQ(TimesOf({-1, 999999999}, {0, 0}).start, 0);
  EXPECT_EQ(TimesOf({0, 145224194}, {9223372037, 0}).duration, INT64_MAX - 1);
  EXPECT_EQ(TimesOf({0, 145224193}, {9223372037, 0}).duration, INT64_MAX);
  EXPECT_EQ(TimesOf({0, 145224192}, {9223372037, 0}).duration, INT64_MAX);
  EXPECT_EQ(TimesOf({5, 1}, {5, 0}).duration, 0);
  EXPECT_EQ(TimesOf({5, 999999999}, {6, 0}).duration, 1);
  EXPECT_EQ(TimesOf({1, UINT32_MAX}, {9, 0}).start, 5294967295); // nanoseconds are carried
}

TEST(Times, ResultSaysStartAndEndAndTheNextProfileBeginsWhereTold) {
  Profile profile(Types{{"a", ""}}, {-10, 1500000000});
  ddog_Timespec end = {20, 2000000001}, next = {77, 5};
  auto encoded = Serialize(profile, &end, nullptr, &next);
  EXPECT_EQ(encoded.start.seconds, -9);
  EXPECT_EQ(encoded.start.nanoseconds, 500000000u);
  EXPECT_EQ(encoded.end.seconds, 22);
  EXPECT_EQ(encoded.end.nanoseconds, 1u);
  ddog_prof_EncodedProfile_drop(&encoded);
  auto second = Serialize(profile, &end, nullptr);
  EXPECT_EQ(second.start.seconds, 77);
  EXPECT_EQ(second.start.nanoseconds, 5u);
  ddog_prof_EncodedProfile_drop(&second);
  ddog_Timespec reset_to = {5, 6};
  EXPECT_EQ(TextOf(ddog_prof_Profile_reset(profile.handle(), &reset_to)), "");
  auto third = Serialize(profile, &end, nullptr);
  EXPECT_EQ(third.start.seconds, 5);
  ddog_prof_EncodedProfile_drop(&third);
}

TEST(Serialize, EmptiesTheProfileButForItsTypesAndPeriod) {
  ddog_prof_ValueType type = {DDOG_CHARSLICE_C("t"), DDOG_CHARSLICE_C("u")};
  ddog_prof_Period period = {{DDOG_CHARSLICE_C("cpu"), DDOG_CHARSLICE_C("ns")}, 10000000};
  auto made = ddog_prof_Profile_new({&type, 1}, &period, nullptr);
  ASSERT_EQ(made.tag, DDOG_PROF_PROFILE_NEW_RESULT_OK);
  for (int i = 0; i < 3; i++) {
    int64_t one = 1;
    ddog_prof_Location location = {};
    location.function.name = DDOG_CHARSLICE_C("f");
    EXPECT_EQ(TextOf(ddog_prof_Profile_add(&made.ok, {{&location, 1}, {&one, 1}, {nullptr, 0}}, 0)), "");
    if (i == 1) {
      EXPECT_EQ(TextOf(ddog_prof_Profile_reset(&made.ok, nullptr)), "");
    }
    auto result = ddog_prof_Profile_serialize(&made.ok, nullptr, nullptr, nullptr);
    ASSERT_EQ(result.tag, DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK);
    Decoded decoded(result.ok.buffer.ptr, result.ok.buffer.len);
    EXPECT_EQ(decoded->n_sample, i == 1 ? 0u : 1u);
    EXPECT_EQ(decoded->n_string_table, i == 1 ? 8u : 9u);
    ASSERT_NE(decoded->period_type, nullptr);
    EXPECT_STREQ(decoded->string_table[decoded->period_type->type], "cpu");
    EXPECT_EQ(decoded->period, 10000000);
    ddog_prof_EncodedProfile_drop(&result.ok);
  }
  ddog_prof_Profile_drop(&made.ok);
}

TEST(Serialize, TypesThatAreNotUtf8AreEmpty) {
  Profile profile(Types{{"\xff", "ok"}, {"ok", "\xc0\x80"}});
  Decoded decoded = profile.Decode();
  EXPECT_EQ(decoded->sample_type[0]->type, 0);
  EXPECT_EQ(decoded->sample_type[1]->unit, 0);
  EXPECT_STREQ(decoded->string_table[decoded->sample_type[0]->unit], "ok");
}

TEST(Serialize, TooManySampleTypes) {
  std::vector<ddog_prof_ValueType> types(DDOG_PROF_MAX_SAMPLE_TYPES + 1);
  auto made = ddog_prof_Profile_new({types.data(), types.size()}, nullptr, nullptr);
  ASSERT_EQ(made.tag, DDOG_PROF_PROFILE_NEW_RESULT_ERR);
  EXPECT_EQ(TextOf(&made.err), "1025 sample types are more than the limit of 1024");
}

void Fill(Profile &profile) {
  profile.SetEndpoint(3, "Endpoint#three");
  for (int i = 0; i < 3000; i++) {
    std::vector<Frame> frames;
    for (int k = 0; k < i % 50; k++) {
      Frame frame = {"method_" + std::to_string((i * k) % 300), "/app/file_" + std::to_string(k % 7) + ".rb",
                     k * i};
      if (k % 11 == 3) frame.system_name = "sys", frame.start_line = -k;
      if (k % 11 == 5)
        frame.address = 0x7f0000000000u + k, frame.mapping_filename = "lib.so", frame.build_id = "b1d";
      frames.push_back(frame);
    }
    profile.Add(frames, {i, i % 3 ? -i : 0},
                {Text("thread", std::to_string(i % 9)), Number("local root span id", i % 5 + 1),
                 Number("age", i % 4, i % 2 ? "s" : "")},
                i % 2 ? 1700000000000000000 + i : 0);
  }
  profile.Add(std::vector<Frame>(30000, {"deep", "deep.rb", 1}), {1, 1}); // a sample larger than the window
}

TEST(Serialize, GivesTheBytesOfProtobufC) {
  Profile profile;
  Fill(profile);
  Decoded decoded = profile.Decode(DDOG_PROF_CODEC_NONE);
  // protobuf-c packs fields by number; the order at the top level is ours, so each entry is compared on its
  // own.
  std::string expected;
  auto pack = [&](Pprof__Profile &partial) {
    std::string bytes(pprof__profile__get_packed_size(&partial), '\0');
    pprof__profile__pack(&partial, reinterpret_cast<uint8_t *>(&bytes[0]));
    expected += bytes;
  };
#define PACK_EACH(field)                                                                                     \
  for (size_t i = 0; i < decoded->n_##field; i++) {                                                          \
    Pprof__Profile partial = PPROF__PROFILE__INIT;                                                           \
    partial.n_##field = 1;                                                                                   \
    partial.field = const_cast<Pprof__Profile *>(decoded.operator->())->field + i;                           \
    pack(partial);                                                                                           \
  }
  PACK_EACH(sample)
  PACK_EACH(sample_type)
  PACK_EACH(mapping)
  PACK_EACH(location)
  PACK_EACH(function)
  PACK_EACH(string_table)
  Pprof__Profile last = PPROF__PROFILE__INIT;
  last.time_nanos = decoded->time_nanos;
  last.duration_nanos = decoded->duration_nanos;
  pack(last);
  ASSERT_EQ(expected.size(), decoded.raw().size());
  EXPECT_TRUE(expected == decoded.raw());
  EXPECT_GT(expected.size(), 100000u);
}

TEST(Serialize, EveryCodecHoldsTheSameBytes) {
  std::string bare;
  for (auto codec :
       {DDOG_PROF_CODEC_NONE, DDOG_PROF_CODEC_LZ4_FRAME, DDOG_PROF_CODEC_GZIP, DDOG_PROF_CODEC_ZSTD}) {
    Profile profile;
    Fill(profile);
    Decoded decoded = profile.Decode(codec);
    if (codec == DDOG_PROF_CODEC_NONE) bare = decoded.raw();
    EXPECT_TRUE(bare == decoded.raw()) << codec;
  }
  for (auto codec :
       {DDOG_PROF_CODEC_NONE, DDOG_PROF_CODEC_LZ4_FRAME, DDOG_PROF_CODEC_GZIP, DDOG_PROF_CODEC_ZSTD}) {
    Profile empty;
    EXPECT_EQ(empty.Decode(codec)->n_sample, 0u) << codec;
  }
}

TEST(Serialize, EachCodecSaysWhatItIs) {
  auto first = [](ddog_prof_Codec codec) {
    Profile profile;
    auto encoded = profile.Serialize(codec);
    std::string bytes(reinterpret_cast<const char *>(encoded.buffer.ptr), 4);
    ddog_prof_EncodedProfile_drop(&encoded);
    return bytes;
  };
  EXPECT_EQ(first(DDOG_PROF_CODEC_LZ4_FRAME), "\x04\x22\x4d\x18");
  EXPECT_EQ(first(DDOG_PROF_CODEC_GZIP).substr(0, 3), "\x1f\x8b\x08");
  EXPECT_EQ(first(DDOG_PROF_CODEC_ZSTD), "\x28\xb5\x2f\xfd");
}

// The frame around LZ4's blocks is ours: it begins as liblz4's own does, for the same settings, and liblz4
// reads it to its end, with blocks that it could compress and with those that it could not.
TEST(Serialize, Lz4FrameIsAsLiblz4WritesIt) {
  LZ4F_preferences_t settings = {};
  settings.frameInfo.blockSizeID = LZ4F_max64KB;
  settings.frameInfo.blockMode = LZ4F_blockLinked;
  LZ4F_cctx *context;
  ASSERT_FALSE(LZ4F_isError(LZ4F_createCompressionContext(&context, LZ4F_VERSION)));
  uint8_t header[LZ4F_HEADER_SIZE_MAX];
  size_t header_len = LZ4F_compressBegin(context, header, sizeof header, &settings);
  ASSERT_FALSE(LZ4F_isError(header_len));
  LZ4F_freeCompressionContext(context);

  std::string noise;
  for (uint64_t state = 1; noise.size() < 300000; state = state * 6364136223846793005u + 1442695040888963407u)
    noise += static_cast<char>('0' + (state >> 58));
  for (const std::string &name : {std::string(), std::string(300000, 'x'), noise}) {
    Profile profile;
    EXPECT_EQ(profile.Add({{name, "f.rb", 1}}, {1, 1}), "");
    auto encoded = profile.Serialize();
    ASSERT_GT(encoded.buffer.len, header_len);
    EXPECT_EQ(memcmp(encoded.buffer.ptr, header, header_len), 0);
    LZ4F_dctx *reader;
    ASSERT_FALSE(LZ4F_isError(LZ4F_createDecompressionContext(&reader, LZ4F_VERSION)));
    std::vector<uint8_t> out(1000000);
    size_t out_len = out.size(), in_len = encoded.buffer.len;
    EXPECT_EQ(LZ4F_decompress(reader, out.data(), &out_len, encoded.buffer.ptr, &in_len, nullptr), 0u);
    EXPECT_EQ(in_len, encoded.buffer.len);
    EXPECT_NE(std::string(out.begin(), out.begin() + static_cast<ptrdiff_t>(out_len)).find(name),
              std::string::npos);
    LZ4F_freeDecompressionContext(reader);
    ddog_prof_EncodedProfile_drop(&encoded);
  }
}

TEST(Serialize, AnUnknownCodecLeavesTheProfile) {
  Profile profile;
  profile.Add({}, {1, 1});
  auto result = ddog_prof_Profile_serialize_as(profile.handle(), nullptr, nullptr, nullptr,
                                               static_cast<ddog_prof_Codec>(4));
  ASSERT_EQ(result.tag, DDOG_PROF_PROFILE_SERIALIZE_RESULT_ERR);
  EXPECT_EQ(TextOf(&result.err), "ddog_prof_Profile_serialize_as failed: there is no codec 4");
  EXPECT_EQ(profile.Decode()->n_sample, 1u);
}

TEST(Serialize, EqualInputGivesEqualBytes) {
  Profile one, other;
  Fill(one);
  Fill(other);
  auto a = one.Serialize(), b = other.Serialize();
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(a.buffer.ptr), a.buffer.len),
            std::string(reinterpret_cast<const char *>(b.buffer.ptr), b.buffer.len));
  ddog_prof_EncodedProfile_drop(&a);
  ddog_prof_EncodedProfile_drop(&b);
}

TEST(Serialize, CountsOfEndpointsTravelBeside) {
  Profile profile;
  EXPECT_EQ(profile.CountEndpoint("a", 1), "");
  EXPECT_EQ(profile.CountEndpoint("b\xff", -2), "");
  EXPECT_EQ(profile.CountEndpoint("a", INT64_MAX), "");
  EXPECT_EQ(profile.CountEndpoint("", 0), "");
  auto encoded = profile.Serialize();
  auto *stats = reinterpret_cast<const nf_endpoint_stats *>(encoded.endpoints_stats);
  ASSERT_EQ(nf_endpoint_stats_count(stats), 3u);
  auto name = [&](size_t i) {
    nf_bytes bytes = nf_endpoint_stats_name(stats, i);
    return std::string(reinterpret_cast<const char *>(bytes.ptr), bytes.len);
  };
  EXPECT_EQ(name(0), "a");
  EXPECT_EQ(nf_endpoint_stats_value(stats, 0), INT64_MIN);
  EXPECT_EQ(name(1), "b\xef\xbf\xbd");
  EXPECT_EQ(nf_endpoint_stats_value(stats, 1), -2);
  EXPECT_EQ(name(2), "");
  ddog_prof_EncodedProfile_drop(&encoded);
  auto next = profile.Serialize();
  ASSERT_NE(next.endpoints_stats, nullptr);
  EXPECT_EQ(nf_endpoint_stats_count(reinterpret_cast<const nf_endpoint_stats *>(next.endpoints_stats)), 0u);
  ddog_prof_EncodedProfile_drop(&next);
}

} // namespace
