// The n-th allocation fails, for every n: an error, no leak (the sanitizer build looks), no profile.
// Linked with --wrap, see BUILD.
#include <gtest/gtest.h>

#include "tests/unit/reader/support.h"

namespace {

long allowed = -1; // -1: all

bool Refuse() {
  if (allowed < 0) return false;
  if (allowed == 0) return true;
  allowed--;
  return false;
}

} // namespace

extern "C" {
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size) { return Refuse() ? nullptr : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return Refuse() ? nullptr : __real_calloc(count, size); }
void *__wrap_realloc(void *block, size_t size) { return Refuse() ? nullptr : __real_realloc(block, size); }
}

using namespace reader_test;

namespace {

// How many allocations must be allowed until reading succeeds; each smaller number must give an error.
int ReadWithFailures(const Bytes &file) {
  for (int n = 0;; n++) {
    Pprof__Profile *profile = nullptr;
    nf_error error = {};
    const auto *data = reinterpret_cast<const uint8_t *>(file.data());
    allowed = n;
    bool ok = nf_reader_read(data, file.size(), kLimit, &profile, &error);
    allowed = -1;
    if (ok) {
      nf_reader_drop(profile);
      return n;
    }
    EXPECT_EQ(nullptr, profile) << n;
    // Either there was memory left for a text about memory, or there is none.
    EXPECT_NE(std::string::npos, std::string(nf_error_text(&error)).find("memory"))
        << n << ": " << error.text;
    nf_error_deinit(&error);
    if (n > 10000) return -1;
  }
}

TEST(ReaderTorture, EveryFailedAllocationIsAnError) {
  Profile p = Good();
  std::swap(p.locations[0].id, p.locations[1].id); // ids that need sorting
  p.strings[5] = Bytes("main\0", 5);               // and a name that needs mending
  Bytes plain = p.Pack();
  // At least one for each of its 10 strings and 15 messages.
  for (const Bytes &file : {plain, Gzip(plain), Lz4(plain), Zstd(plain)})
    EXPECT_GE(ReadWithFailures(file), 25);
}

TEST(ReaderTorture, StrictChecksToo) {
  Bytes plain = Good().Pack();
  Pprof__Profile *profile = nullptr;
  ASSERT_TRUE(nf_reader_unpack(reinterpret_cast<const uint8_t *>(plain.data()), plain.size(), kLimit,
                               &profile, nullptr));
  int n = 0;
  for (;; n++) {
    allowed = n;
    bool ok = nf_reader_check(profile, NF_READER_RULES_OURS, nullptr);
    allowed = -1;
    if (ok || n > 1000) break;
  }
  EXPECT_EQ(5, n); // strings, mappings, functions, locations, keys of the first sample's labels
  nf_reader_drop(profile);
}

} // namespace
