// The engine recognises frames by code that is chosen for the processor: whichever it is, a profile has the
// same bytes.
#include "tests/unit/core/plain_processor.h"

#include "tests/unit/core/support.h"

#include <cstdio>

using namespace support;

namespace {

// Lengths at both ends of each way of comparing, and beyond the last.
constexpr size_t kLongest = 132;

// Frames whose text changes where it lies: the pointers say that it is the frame from before, only the bytes
// tell that it is not.
class Reused {
public:
  explicit Reused(bool plain) {
    if (plain) changed_ = plain_processor(profile_.handle());
  }
  bool changed() const { return changed_; }
  const std::vector<std::string> &expected() const { return expected_; }

  // Adds a frame of these texts from buffers that every call uses.
  void Add(const std::string &name, const std::string &filename, bool is_new) {
    name.copy(name_, sizeof name_);
    filename.copy(filename_, sizeof filename_);
    ddog_prof_Location location = {};
    location.function.name = {name_, name.size()};
    location.function.filename = {filename_, filename.size()};
    location.line = 7;
    const int64_t values[] = {1, 1};
    ddog_prof_Sample sample = {};
    sample.locations = {&location, 1};
    sample.values = {values, 2};
    ASSERT_EQ(TextOf(ddog_prof_Profile_add(profile_.handle(), sample, 0)), "");
    if (is_new) expected_.push_back(name + " " + filename + ":7");
  }

  // The text that differs comes right after the one that it is taken for.
  void AddEveryDifference() {
    for (size_t len = 0; len <= kLongest; len++) {
      std::string text(len, 'a');
      Add("", text, true);
      for (size_t at = 0; at < len; at++) {
        text[at] = 'b';
        Add("", text, true);
        text[at] = 'a';
        Add("", text, false);
      }
    }
    for (size_t len = 1; len <= kLongest; len++) {
      std::string text(len, 'a');
      Add(text, "", true);
      for (size_t at = 0; at < len; at++) {
        text[at] = 'b';
        Add(text, "", true);
        text[at] = 'a';
        Add(text, "", false);
      }
    }
  }

  Decoded Decode() { return profile_.Decode(); }

private:
  Profile profile_;
  bool changed_ = false;
  char name_[kLongest], filename_[kLongest];
  std::vector<std::string> expected_;
};

std::vector<std::string> FramesOf(const Decoded &decoded) {
  std::vector<std::string> frames;
  for (const Sample &sample : decoded.samples()) frames.push_back(sample.stack.at(0));
  return frames;
}

TEST(PlainProcessor, TellsApartFramesThatDifferInOneByteWhereverTheyLie) {
  for (bool plain : {false, true}) {
    Reused frames(plain);
    frames.AddEveryDifference();
    EXPECT_TRUE(FramesOf(frames.Decode()) == frames.expected()) << (plain ? "plain" : "as chosen");
  }
}

TEST(PlainProcessor, GivesTheSameBytes) {
  Reused chosen(false), plain(true);
  if (!plain.changed()) printf("This processor is a plain one: compared with itself.\n");
  chosen.AddEveryDifference();
  plain.AddEveryDifference();
  EXPECT_TRUE(chosen.Decode().raw() == plain.Decode().raw());
}

} // namespace
