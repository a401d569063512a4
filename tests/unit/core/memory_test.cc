// Memory: the budget, what a profile holds, and what serializing takes beside it.
#include "core/endpoint_stats.h"
#include "tests/unit/core/support.h"

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

using namespace support;

namespace {

TEST(Budget, RefusesNewRowsAndCountsThem) {
  Profile profile;
  EXPECT_EQ(profile.stats().budget_bytes, DDOG_PROF_DEFAULT_BUDGET_BYTES);
  EXPECT_EQ(profile.Add({{"first", "f.rb", 1}}, {1, 0}), "");
  const uint64_t budget = 200000;
  EXPECT_EQ(TextOf(ddog_prof_Profile_set_budget(profile.handle(), budget)), "");
  uint64_t refused = 0;
  std::string text;
  for (int i = 0; i < 20000; i++) {
    std::string one =
        profile.Add({{"method" + std::to_string(i), "f.rb", i}}, {1, 1}, {Number("n", i)}, i % 2);
    if (one != "") refused++, text = one;
  }
  EXPECT_EQ(text, "ddog_prof_Profile_add failed: the profile's budget of 200000 bytes is used up");
  auto stats = profile.stats();
  EXPECT_EQ(stats.budget_bytes, budget);
  EXPECT_EQ(stats.samples_refused, refused);
  EXPECT_EQ(stats.samples_aggregated + stats.samples_timestamped + refused, 20001u);
  EXPECT_GT(stats.samples_aggregated, 100u);
  EXPECT_LT(stats.memory_bytes, budget + 16384);
  // What is there is still added up, also in a column that it did not have.
  EXPECT_EQ(profile.Add({{"first", "f.rb", 1}}, {1, 5}), "");
  EXPECT_EQ(profile.SetEndpoint(1, std::string(300000, 'x')),
            "ddog_prof_Profile_set_endpoint failed: the profile's budget of 200000 bytes is used up");
  EXPECT_EQ(profile.CountEndpoint(std::string(300000, 'x'), 1),
            "ddog_prof_Profile_add_endpoint_count failed: the profile's budget of 200000 bytes is used up");
  EXPECT_EQ(profile.Proportional({0}, std::string(300000, 'x'), "", 1, 2),
            "the profile's budget of 200000 bytes is used up");
  auto samples = profile.Decode().samples();
  bool found = false;
  for (const auto &sample : samples)
    if (sample.stack[0] == "first f.rb:1") {
      found = true;
      EXPECT_EQ(sample.values, (std::vector<int64_t>{2, 5}));
    }
  EXPECT_TRUE(found);
  stats = profile.stats();
  EXPECT_EQ(stats.samples_refused, 0u);
  EXPECT_EQ(stats.budget_bytes, budget);
  EXPECT_EQ(profile.Add({{"again", "f.rb", 1}}, {1, 1}), "");
  EXPECT_EQ(TextOf(ddog_prof_Profile_set_budget(profile.handle(), 0)), "");
  EXPECT_EQ(profile.stats().budget_bytes, 0u);
  EXPECT_EQ(profile.SetEndpoint(1, std::string(300000, 'x')), "");
}

TEST(Budget, TooSmallForAnythingRefusesEverything) {
  Profile profile;
  EXPECT_EQ(TextOf(ddog_prof_Profile_set_budget(profile.handle(), 1)), "");
  EXPECT_NE(profile.Add({{"f", "f", 1}}, {1, 1}), "");
  EXPECT_EQ(profile.stats().samples_refused, 1u);
  EXPECT_EQ(profile.Decode()->n_sample, 0u);
}

TEST(Budget, ARefusedFirstCountDoesNotSpoilTheNext) {
  Profile profile;
  EXPECT_EQ(TextOf(ddog_prof_Profile_set_budget(profile.handle(), 1)), "");
  EXPECT_NE(profile.CountEndpoint("a", 1), "");
  EXPECT_EQ(TextOf(ddog_prof_Profile_set_budget(profile.handle(), 0)), "");
  EXPECT_EQ(profile.CountEndpoint("a", 2), "");
  auto encoded = profile.Serialize();
  auto *stats = reinterpret_cast<const nf_endpoint_stats *>(encoded.endpoints_stats);
  ASSERT_EQ(nf_endpoint_stats_count(stats), 1u);
  EXPECT_EQ(nf_endpoint_stats_value(stats, 0), 2);
  ddog_prof_EncodedProfile_drop(&encoded);
}

TEST(Memory, AFreshProfileIsSmall) {
  struct mallinfo2 before = mallinfo2();
  Profile profile(Types{{"cpu-time", "nanoseconds"}, {"cpu-samples", "count"}, {"wall-time", "nanoseconds"}});
  struct mallinfo2 after = mallinfo2();
  EXPECT_LE(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd, 32u << 10);
  EXPECT_LE(profile.stats().memory_bytes, 32u << 10);
}

TEST(Memory, AResetGivesItBack) {
  Profile profile;
  uint64_t fresh = profile.stats().memory_bytes;
  for (int i = 0; i < 20000; i++)
    profile.Add({{"method" + std::to_string(i), "f.rb", i}}, {1, 1}, {Number("n", i)}, i % 2);
  EXPECT_GT(profile.stats().memory_bytes, 1u << 20);
  EXPECT_EQ(TextOf(ddog_prof_Profile_reset(profile.handle(), nullptr)), "");
  EXPECT_LE(profile.stats().memory_bytes, fresh + 4096);
}

long StatusKb(const char *key) {
  char line[256];
  long value = -1;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (!strncmp(line, key, strlen(key))) value = atol(line + strlen(key));
  if (file) fclose(file);
  return value;
}

// In a process of its own, so that nothing else is in the peak.
int PeakBeyond(ddog_prof_Codec codec, bool timeline, int samples) {
  Profile profile;
  for (int i = 0; i < samples; i++)
    profile.Add(
        {{"method" + std::to_string(i % 5000), "/app/some/file_" + std::to_string(i % 71) + ".rb", i % 7}},
        {i * 7919LL % 10000000, 1}, {Number("n", i % 1000), Text("t", std::to_string(i % 16))},
        timeline ? 1700000000000000000 + i * 120000LL : 0);
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file || fputs("5", file) < 0 || fclose(file)) return 200; // the peak cannot be reset here
  long before = StatusKb("VmRSS:");
  auto encoded = profile.Serialize(codec);
  long peak = StatusKb("VmHWM:");
  long beyond = peak - before - static_cast<long>(encoded.buffer.len / 1024);
  printf("codec %d: held %ld kB, encoded %zu kB, beyond %ld kB\n", codec, before, encoded.buffer.len / 1024,
         beyond);
  ddog_prof_EncodedProfile_drop(&encoded);
  return beyond <= 1024 ? 0 : 1;
}

TEST(Memory, SerializingTakesLessThanAMebibyteBesideItsOutput) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's own memory is in the figures";
#endif
  const char *preloaded = getenv("LD_PRELOAD");
  if (preloaded && strstr(preloaded, "vgpreload")) GTEST_SKIP() << "Valgrind's own memory is in the figures";
  for (auto codec :
       {DDOG_PROF_CODEC_LZ4_FRAME, DDOG_PROF_CODEC_GZIP, DDOG_PROF_CODEC_ZSTD, DDOG_PROF_CODEC_NONE})
    for (auto [timeline, samples] : {std::pair{false, 60000}, {true, 60000}, {true, 400000}}) {
      fflush(stdout);
      pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        int result = PeakBeyond(codec, timeline, samples);
        fflush(stdout);
        _exit(result);
      }
      int status = 0;
      ASSERT_EQ(waitpid(pid, &status, 0), pid);
      ASSERT_TRUE(WIFEXITED(status));
      if (WEXITSTATUS(status) == 200) GTEST_SKIP() << "/proc/self/clear_refs cannot be written here";
      EXPECT_EQ(WEXITSTATUS(status), 0) << "codec " << codec << ", " << samples << " samples";
    }
}

TEST(Fork, AChildGoesOnWithTheProfile) {
  Profile profile;
  for (int i = 0; i < 1000; i++) profile.Add({{"m" + std::to_string(i), "f", i}}, {1, 1});
  pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    bool ok = profile.Add({{"in the child", "f", 1}}, {1, 1}) == "";
    ok = ok && profile.Decode()->n_sample == 1001;
    if (profile.Add({{"next", "f", 1}}, {1, 1}) != "")
      ok = false; // not behind &&, where GCC 16 sees a dangling pointer
    ok = ok && profile.Decode()->n_sample == 1;
    _exit(ok ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(profile.Decode()->n_sample, 1000u);
}

} // namespace
