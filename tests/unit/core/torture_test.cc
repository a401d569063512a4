// Memory runs out: the n-th request fails, for every n, in every call. The call must be an error, what was
// there must still be there, nothing may leak (the AddressSanitizer build sees that), and the same call must
// work afterwards.
//
// The linker sends what the library asks of malloc, mmap and the compressors through the functions below (see
// BUILD).
#include "tests/unit/core/support.h"

#include <cstdlib>
#include <functional>
#include <sys/mman.h>

#include <lz4.h>
#include <zstd.h>

using namespace support;

namespace {

int requests_left = -1; // until one fails; -1: none does
bool failed;

bool Fail() {
  if (requests_left < 0 || requests_left-- > 0) return false;
  failed = true;
  return true;
}

} // namespace

extern "C" {
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__real_mremap(void *block, size_t old_size, size_t size, int flags, ...);
LZ4_stream_t *__real_LZ4_createStream(void);
ZSTD_CCtx *__real_ZSTD_createCCtx(void);

void *__wrap_malloc(size_t size) { return Fail() ? nullptr : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return Fail() ? nullptr : __real_calloc(count, size); }
void *__wrap_realloc(void *block, size_t size) { return Fail() ? nullptr : __real_realloc(block, size); }
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset) {
  return Fail() ? MAP_FAILED : __real_mmap(at, size, prot, flags, fd, offset);
}
void *__wrap_mremap(void *block, size_t old_size, size_t size, int flags) {
  return Fail() ? MAP_FAILED : __real_mremap(block, old_size, size, flags);
}
LZ4_stream_t *__wrap_LZ4_createStream(void) { return Fail() ? nullptr : __real_LZ4_createStream(); }
ZSTD_CCtx *__wrap_ZSTD_createCCtx(void) { return Fail() ? nullptr : __real_ZSTD_createCCtx(); }
}

namespace {

// Enough to make every table grow, small ones and those of whole pages.
void Fill(Profile &profile, int samples) {
  for (int i = 0; i < samples; i++) {
    std::vector<Frame> frames;
    for (int k = 0; k < 1 + i % 9; k++) {
      Frame frame = {"method_" + std::to_string(i % 1000 * k), "/app/file_" + std::to_string(k) + ".rb", k};
      if (i % 5 == 0) frame.address = static_cast<uint64_t>(i) + 1;
      if (i % 17 == 0) frame.mapping_filename = "lib" + std::to_string(i) + ".so";
      frames.push_back(frame);
    }
    profile.Add(frames, {i, 1}, {Number("local root span id", i + 1), Text("t", std::to_string(i % 7))},
                i % 2);
  }
  profile.Add({{"of zeros", "f", 1}}, {0, 0});
  profile.SetEndpoint(1, "First#endpoint");
  profile.CountEndpoint("First#endpoint", 3);
  profile.Proportional({0}, "t", "3", 1, 2);
}

// `call` gives the text of its error, or "" if it worked.
using Call = std::function<std::string(Profile &)>;

std::string Raw(Profile &profile) { return profile.Decode(DDOG_PROF_CODEC_NONE).raw(); }

void Torture(int samples, const Call &call) {
  Profile untouched, reference;
  Fill(untouched, samples);
  Fill(reference, samples);
  ASSERT_EQ(call(reference), "");
  const std::string before = Raw(untouched), after = Raw(reference);
  int n = 0;
  do {
    Profile profile, twin;
    Fill(profile, samples);
    Fill(twin, samples);
    for (Profile *p : {&profile, &twin}) {
      failed = false;
      requests_left = n;
      std::string text = call(*p);
      requests_left = -1;
      if (failed && text != "") {
        EXPECT_EQ(text, "out of memory") << n;
      }
      if (p == &profile && text != "") {
        EXPECT_TRUE(before == Raw(profile)) << "something was lost at request " << n;
      }
      if (p == &twin) {
        if (text != "") {
          EXPECT_EQ(call(twin), "") << n;
        }
        EXPECT_TRUE(after == Raw(twin)) << "not the same afterwards at request " << n;
      }
      if (::testing::Test::HasFailure()) return;
    }
    n++;
  } while (failed);
}

std::string AddNew(Profile &profile, int64_t timestamp) {
  static const std::vector<Frame> frames = {{"new method", "new file", 7},
                                            {"other", "new file", 8, "system", -1, 99, 1, 2, 3, "map", "id"}};
  static const std::vector<Label> labels = {Number("new number", 3, "unit"), Text("new text", "value")};
  return profile.Add(frames, {1, 2}, labels, timestamp);
}

TEST(Torture, Add) {
  for (int samples : {0, 1, 13, 200, 2000}) {
    Torture(samples, [](Profile &p) { return AddNew(p, 0); });
    Torture(samples, [](Profile &p) { return AddNew(p, 5); });
  }
}

TEST(Torture, AddManyLabels) {
  static std::vector<Label> labels;
  for (int i = 0; i < 300; i++) labels.push_back(Number("n" + std::to_string(i), i));
  Torture(1, [](Profile &p) { return p.Add({}, {1, 1}, labels); });
}

TEST(Torture, AddWidensARow) {
  Torture(3, [](Profile &p) { return p.Add({{"of zeros", "f", 1}}, {1, 1}); });
}

TEST(Torture, EndpointsAndRules) {
  for (int samples : {0, 50}) {
    Torture(samples, [](Profile &p) { return p.SetEndpoint(77, "New\xff#endpoint"); });
    Torture(samples, [](Profile &p) { return p.CountEndpoint("New\xff#endpoint", 1); });
    Torture(samples, [](Profile &p) { return p.Proportional({0, 1}, "x\xff", "y\xff", 1, 3); });
  }
}

std::string Serialized(Profile &profile, ddog_prof_Codec codec, std::string *bytes) {
  ddog_Timespec end = {1700000060, 0}, next = {1700000000, 0};
  auto result = ddog_prof_Profile_serialize_as(profile.handle(), &end, nullptr, &next, codec);
  if (result.tag == DDOG_PROF_PROFILE_SERIALIZE_RESULT_ERR) return TextOf(&result.err);
  bytes->assign(reinterpret_cast<const char *>(result.ok.buffer.ptr), result.ok.buffer.len);
  ddog_prof_EncodedProfile_drop(&result.ok);
  return "";
}

// Serializing either works, and then the profile is empty, or it does not, and then nothing is lost. Without
// address space for all of its output it falls back to growing step by step: that must give the same bytes.
TEST(Torture, Serialize) {
  for (auto codec :
       {DDOG_PROF_CODEC_LZ4_FRAME, DDOG_PROF_CODEC_GZIP, DDOG_PROF_CODEC_ZSTD, DDOG_PROF_CODEC_NONE})
    for (int samples : {0, 3000}) {
      Profile whole;
      Fill(whole, samples);
      std::string expected, empty;
      ASSERT_EQ(Serialized(whole, codec, &expected), "");
      ASSERT_EQ(Serialized(whole, codec, &empty), "");
      int n = 0, errors = 0;
      do {
        Profile profile;
        Fill(profile, samples);
        std::string bytes;
        failed = false;
        requests_left = n++;
        std::string text = Serialized(profile, codec, &bytes);
        requests_left = -1;
        if (text != "") {
          errors++;
          ASSERT_EQ(text, "out of memory");
          ASSERT_EQ(Serialized(profile, codec, &bytes), "") << n;
        }
        ASSERT_TRUE(bytes == expected) << "codec " << codec << " request " << n;
        ASSERT_EQ(Serialized(profile, codec, &bytes), "");
        ASSERT_TRUE(bytes == empty) << n;
      } while (failed);
      EXPECT_GT(errors, 10);
    }
}

TEST(Torture, NewAndReset) {
  int n = 0;
  do {
    ddog_prof_ValueType type = {DDOG_CHARSLICE_C("t"), DDOG_CHARSLICE_C("u")};
    failed = false;
    requests_left = n++;
    auto made = ddog_prof_Profile_new({&type, 1}, nullptr, nullptr);
    requests_left = -1;
    if (made.tag == DDOG_PROF_PROFILE_NEW_RESULT_ERR) {
      EXPECT_EQ(TextOf(&made.err), "out of memory");
    } else {
      ddog_prof_Profile_drop(&made.ok);
    }
  } while (failed);
  EXPECT_GT(n, 8);
  n = 0;
  do {
    Profile profile;
    profile.Add({{"f", "f", 1}}, {1, 1});
    ddog_Timespec start = {1700000000, 0};
    failed = false;
    requests_left = n++;
    std::string text = TextOf(ddog_prof_Profile_reset(profile.handle(), &start));
    requests_left = -1;
    EXPECT_EQ(text, failed ? "out of memory" : "");
    EXPECT_EQ(profile.Decode()->n_sample, failed ? 1u : 0u) << n;
  } while (failed);
}

TEST(Torture, AnErrorWithoutMemoryForItsText) {
  Profile profile;
  for (int n = 0; n < 3; n++) {
    requests_left = n;
    auto result = ddog_prof_Profile_add(profile.handle(), {}, 0);
    requests_left = -1;
    ASSERT_EQ(result.tag, DDOG_PROF_PROFILE_RESULT_ERR);
    std::string text = TextOf(&result.err);
    EXPECT_TRUE(text == "out of memory" ||
                text ==
                    "ddog_prof_Profile_add failed: expected 2 sample types, but sample had 0 sample types")
        << text;
  }
}

} // namespace
