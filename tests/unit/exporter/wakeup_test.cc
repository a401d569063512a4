#include "exporter/wakeup.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace {

// Writes a byte to `to`, and reads it at `from`.
struct waker {
  int to, from;
};

void wake(void *context) {
  auto *w = static_cast<waker *>(context);
  EXPECT_EQ(write(w->to, "x", 1), 1);
}

void calm(void *context) {
  auto *w = static_cast<waker *>(context);
  char c;
  EXPECT_EQ(read(w->from, &c, 1), 1);
}

class Wakeup : public ::testing::Test {
protected:
  void SetUp() override { lowest_ = nf_wakeup_lowest(); }

  void TearDown() override {
    for (int descriptor : open_) close(descriptor);
  }

  waker make(int type = SOCK_STREAM) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, type, 0, ends), 0);
    open_.insert(open_.end(), {ends[0], ends[1]});
    return {ends[1], ends[0]};
  }

  bool find(waker w) { return nf_wakeup_find(lowest_, wake, calm, &w, pair_); }

  int lowest_, pair_[2];
  std::vector<int> open_;
};

TEST_F(Wakeup, IsThePairThatWakes) {
  waker before = make(), it = make(), after = make();
  EXPECT_EQ(write(before.to, "x", 1), 1);
  ASSERT_TRUE(find(it));
  EXPECT_EQ(pair_[0], it.from);
  EXPECT_EQ(pair_[1], it.to);
  ASSERT_TRUE(find(after));
  EXPECT_EQ(pair_[0], after.from);
}

// Another thread closes what it had open below, between the look for the lowest and the making of the pair.
TEST_F(Wakeup, MayBeLowerThanExpected) {
  for (size_t count : {4, 200}) {
    SetUp();
    std::vector<int> below(count);
    for (int &b : below) b = fcntl(0, F_DUPFD_CLOEXEC, lowest_);
    lowest_ = nf_wakeup_lowest();
    for (int b : below) close(b);
    waker it = make();
    ASSERT_LT(it.to, lowest_);
    ASSERT_TRUE(find(it)) << count << " below";
    EXPECT_EQ(pair_[0], it.from);
    EXPECT_EQ(pair_[1], it.to);
  }
}

TEST_F(Wakeup, IsNotOneThatIsClosedOnExecAlready) {
  waker it = make(SOCK_STREAM | SOCK_CLOEXEC);
  make();
  EXPECT_FALSE(find(it));
}

TEST_F(Wakeup, IsNotOneOfAnotherKind) {
  make();
  EXPECT_FALSE(find(make(SOCK_DGRAM)));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  open_.insert(open_.end(), {ends[0], ends[1]});
  EXPECT_FALSE(find({ends[1], ends[0]}));
}

// Another thread that uses a pair of its own at the same time.
TEST_F(Wakeup, IsUnknownWhenAnotherPairBehavesLikeIt) {
  waker both[2] = {make(), make()};
  auto wake_both = [](void *context) {
    for (int i = 0; i < 2; i++) wake(static_cast<waker *>(context) + i);
  };
  auto calm_both = [](void *context) {
    for (int i = 0; i < 2; i++) calm(static_cast<waker *>(context) + i);
  };
  EXPECT_FALSE(nf_wakeup_find(lowest_, wake_both, calm_both, both, pair_));
}

TEST_F(Wakeup, IsNotWokenWhereThereIsNone) {
  auto never = [](void *) { FAIL(); };
  EXPECT_FALSE(nf_wakeup_find(lowest_, never, never, nullptr, pair_));
  EXPECT_FALSE(nf_wakeup_find(-1, never, never, nullptr, pair_));
}

} // namespace
