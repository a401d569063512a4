#include "exporter/host.h"

#include "exporter/env.h"
#include "exporter/request.h"
#include "helper.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <random>
#include <thread>

namespace {

std::string container(const std::string &line) {
  nf_text id = nf_host_container_id_in(view(line));
  return std::string(id.ptr ? id.ptr : "", id.len);
}

const std::string HASH = "3726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860";
const std::string UUID = "34dc0b5e-626f-2c5c-4c51-70e34b10e765";
const std::string TASK = "0123456789abcdef0123456789abcdef-1234567890";

TEST(Container, IdIsFoundInAllItsForms) {
  EXPECT_EQ(container("13:name=systemd:/docker/" + HASH), HASH);
  EXPECT_EQ(container("11:devices:/kubepods/besteffort/pod3d274242/" + HASH), HASH);
  EXPECT_EQ(container("0::/system.slice/docker-" + HASH + ".scope"), HASH);
  EXPECT_EQ(container("0::/docker-" + HASH + ".scope  \r"), HASH);
  EXPECT_EQ(container("1:name=systemd:/ecs/" + TASK), TASK);
  EXPECT_EQ(container("1:name=systemd:/" + UUID), UUID);
  EXPECT_EQ(container("1:name=systemd:/34dc0b5e_626f_2c5c_4c51_70e34b10e765"), "34dc0b5e_626f_2c5c_4c51_70e34b10e765");
  EXPECT_EQ(container("1:x:/ab" + HASH), HASH);        // 66 digits: the last 64
  EXPECT_EQ(container("1:x:a:b:" + HASH), HASH);       // colons in the path
  EXPECT_EQ(container("1:x:/" + HASH + "\xC3\xA9scope"), HASH); // any one character before "scope"
}

TEST(Container, IdIsNotSeenWhereThereIsNone) {
  EXPECT_EQ(container(""), "");
  EXPECT_EQ(container("0::/"), "");
  EXPECT_EQ(container("x:y:/" + HASH), "");
  EXPECT_EQ(container(":y:/" + HASH), "");
  EXPECT_EQ(container("1:" + HASH), "");
  EXPECT_EQ(container("1:x:/" + HASH + "/foo"), "");
  EXPECT_EQ(container("1:x:/" + HASH + ".slice"), "");
  EXPECT_EQ(container("1:x:/" + HASH.substr(1)), "");
  std::string upper = HASH;
  upper[5] = 'A';
  EXPECT_EQ(container("1:x:/" + upper), "");
  EXPECT_EQ(container("1:x:/0123456789abcdef0123456789abcde-1"), "");
  EXPECT_EQ(container("1:x:/0123456789abcdef0123456789abcdef-"), "");
}

TEST(Env, ReadsWhatIsSet) {
  std::string longer(10000, 'v');
  setenv("NF_TEST_A", "1", 1);
  setenv("NF_TEST_AB", "", 1);
  setenv("NF_TEST_LONG", longer.c_str(), 1);
  unsetenv("NF_TEST_NONE");
  const char *names[] = {"NF_TEST_AB", "NF_TEST_A", "NF_TEST_NONE", "NF_TEST_LONG"};
  char *values[4];
  ASSERT_TRUE(nf_env_read(names, values, 4));
  EXPECT_STREQ(values[0], "");
  EXPECT_STREQ(values[1], "1");
  EXPECT_EQ(values[2], nullptr);
  EXPECT_STREQ(values[3], longer.c_str());
  for (char *v : values) free(v);
}

} // namespace

// Stands before libc's: how often a reader has paused, and what the environment becomes meanwhile.
static std::atomic<int> pauses{0};
static std::atomic<char **> next_environment{nullptr};
extern "C" int nanosleep(const struct timespec *time, struct timespec *left) {
  pauses++;
  if (char **next = next_environment.exchange(nullptr)) environ = next;
  int error = clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
  if (error) errno = error;
  return error ? -1 : 0;
}

namespace {

// The list as setenv leaves it for a moment: freed, with addresses of the heap and NULL at its beginning.
TEST(Env, WaitsForAListThatIsBeingReplaced) {
  char set[] = "NF_TEST_LATE=late", other[] = "NF_TEST_OTHER=", heap[] = "\x90\x31\x50\x7f";
  char *whole[] = {other, other, other, set, nullptr};
  char *freed[][5] = {{heap, heap, nullptr, nullptr, nullptr},
                      {heap, heap, nullptr, set, nullptr},
                      {heap, other, other, nullptr, nullptr},
                      {reinterpret_cast<char *>(0x10), other, other, set, nullptr}};
  char **before = environ;
  for (auto &list : freed) {
    environ = list;
    next_environment = whole;
    const char *names[] = {"NF_TEST_LATE", "NF_TEST_NONE"};
    char *values[2] = {nullptr, nullptr};
    bool read = nf_env_read(names, values, 2);
    environ = before;
    next_environment = nullptr;
    EXPECT_TRUE(read);
    EXPECT_STREQ(values[0], "late");
    EXPECT_EQ(values[1], nullptr);
    for (char *v : values) free(v);
  }
}

TEST(Env, TakesAnOddListThatStaysAsItIs) {
  char set[] = "NF_TEST_ODD=odd", no_value[] = "NF_TEST_NO_VALUE", empty[] = "", no_name[] = "=x";
  char *odd[] = {no_value, empty, no_name, set, nullptr}, *none[] = {nullptr};
  char **before = environ;
  const char *names[] = {"NF_TEST_ODD", "NF_TEST_NO_VALUE"};
  char *values[2];
  environ = odd;
  bool read = nf_env_read(names, values, 2);
  environ = before;
  ASSERT_TRUE(read);
  EXPECT_STREQ(values[0], "odd");
  EXPECT_EQ(values[1], nullptr);
  free(values[0]);
  for (char **list : {none, static_cast<char **>(nullptr)}) {
    environ = list;
    read = nf_env_read(names, values, 2);
    environ = before;
    EXPECT_TRUE(read);
    EXPECT_EQ(values[0], nullptr);
    EXPECT_EQ(values[1], nullptr);
  }
}

TEST(Env, WaitsOnlyOnceForWhatIsOdd) {
  char set[] = "NF_TEST_ODD=odd", no_value[] = "NF_TEST_SEEN", another[] = "NF_TEST_NOT_SEEN";
  char *odd[] = {set, no_value, nullptr}, *odder[] = {set, no_value, another, nullptr};
  const char *names[] = {"NF_TEST_ODD", "NF_TEST_MISSING"};
  char **before = environ;
  int seen[4], i = 0;
  for (char **list : {odd, odd, odder, odder}) {
    environ = list;
    pauses = 0;
    char *values[2];
    bool read = nf_env_read(names, values, 2);
    environ = before;
    seen[i++] = pauses;
    ASSERT_TRUE(read);
    EXPECT_STREQ(values[0], "odd");
    EXPECT_EQ(values[1], nullptr);
    free(values[0]);
  }
  EXPECT_GT(seen[0], 0);
  EXPECT_EQ(seen[1], 0);
  EXPECT_GT(seen[2], 0);
  EXPECT_EQ(seen[3], 0);
}

TEST(Env, SurvivesOtherThreadsThatChangeIt) {
  std::atomic<bool> stop{false};
  setenv("NF_TEST_FIXED", "fixed", 1);
  std::thread storm([&] {
    for (unsigned i = 0; !stop; i++) {
      std::string name = "NF_STORM_" + std::to_string(i % 3000);
      setenv(name.c_str(), std::to_string(i).c_str(), 1);
      if (i % 3 == 0) unsetenv(name.c_str());
    }
  });
  const char *names[] = {"NF_TEST_FIXED"};
  int found = 0;
  for (int i = 0; i < 100; i++) {
    char *values[1];
    ASSERT_TRUE(nf_env_read(names, values, 1));
    if (values[0]) {
      EXPECT_STREQ(values[0], "fixed");
      found++;
    }
    free(values[0]);
  }
  stop = true;
  storm.join();
  EXPECT_EQ(found, 100);
}

std::string moment(int64_t seconds, uint32_t nanoseconds) {
  nf_buffer out = {};
  if (nf_moment_append(&out, nf_moment{seconds, nanoseconds})) return take(&out);
  nf_buffer_deinit(&out);
  return "out of range";
}

TEST(Moment, IsWrittenInUtcWithNineDigits) {
  EXPECT_EQ(moment(0, 0), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(moment(1700000000, 5), "2023-11-14T22:13:20.000000005Z");
  EXPECT_EQ(moment(-1, 999999999), "1969-12-31T23:59:59.999999999Z");
  EXPECT_EQ(moment(951782400, 0), "2000-02-29T00:00:00.000000000Z");
  EXPECT_EQ(moment(253402300799, 0), "9999-12-31T23:59:59.000000000Z");
  EXPECT_EQ(moment(253402300800, 0), "+10000-01-01T00:00:00.000000000Z");
  EXPECT_EQ(moment(-62167219200, 0), "0000-01-01T00:00:00.000000000Z");
  EXPECT_EQ(moment(-62167219201, 0), "-0001-12-31T23:59:59.000000000Z");
}

TEST(Moment, CarriesNanosecondsAndRefusesWhatNoCalendarReaches) {
  EXPECT_EQ(moment(59, 1000000000), "1970-01-01T00:01:00.000000000Z");
  EXPECT_EQ(moment(0, 4294967295u), "1970-01-01T00:00:04.294967295Z");
  EXPECT_EQ(moment(INT64_MAX, 0), "out of range");
  EXPECT_EQ(moment(INT64_MAX, 4294967295u), "out of range");
  EXPECT_EQ(moment(INT64_MIN, 0), "out of range");
  EXPECT_EQ(moment(8210298412799, 0).substr(0, 8), "+262143-");
  EXPECT_EQ(moment(8210298412800, 0), "out of range");
}

TEST(Moment, AgreesWithTheCLibrary) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; i++) {
    int64_t seconds = static_cast<int64_t>(random() % 315569520000) - 62167219200; // years 0 to 9999
    time_t t = static_cast<time_t>(seconds);
    if (t != seconds) continue; // a C library with 32 bits for the time
    struct tm utc;
    gmtime_r(&t, &utc);
    if (utc.tm_year + 1900 > 9999 || utc.tm_year + 1900 < 0) continue;
    char expected[64];
    snprintf(expected, sizeof expected, "%04d-%02d-%02dT%02d:%02d:%02d.000000000Z", utc.tm_year + 1900, utc.tm_mon + 1,
             utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
    ASSERT_EQ(moment(seconds, 0), expected);
  }
}

} // namespace
