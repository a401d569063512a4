#include "exporter/roots.h"
#include "helper.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace {

class Roots : public ::testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/nf_roots_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/ca.pem";
  }

  void TearDown() override {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }

  void write(const std::string &content) {
    FILE *file = fopen(path_.c_str(), "w");
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(fwrite(content.data(), 1, content.size(), file), content.size());
    ASSERT_EQ(fclose(file), 0);
  }

  // The file's content, or the error's text.
  std::string read(const std::string &path) {
    nf_buffer out = {};
    nf_error error = {};
    int lowest = dup(0);
    close(lowest);
    bool ok = nf_roots_read(path.c_str(), nullptr, &out, &error);
    std::string result = ok ? std::string(out.data, out.len) : take(&error);
    nf_buffer_deinit(&out);
    int now = dup(0);
    close(now);
    EXPECT_EQ(now, lowest) << "a descriptor was left open";
    return result;
  }

  std::string folder_, path_;
};

TEST_F(Roots, AreReadWhole) {
  for (size_t len : {0, 1, 63, 64, 4095, 4096, 250000}) {
    std::string content(len, 'x');
    write(content);
    EXPECT_EQ(read(path_), content);
  }
}

TEST_F(Roots, SayWhichFileCannotBeRead) {
  std::string begin = "error trying to connect: the file of CA certificates " + path_ + " cannot be read: ";
  EXPECT_EQ(read(path_), begin + "No such file or directory (os error 2)");
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0); // nobody writes to it: a reader would wait for ever
  EXPECT_EQ(read(path_), begin + "Invalid argument (os error 22)");
  unlink(path_.c_str());
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_EQ(read(path_), begin + "Is a directory (os error 21)");
  rmdir(path_.c_str());
  write("x");
  ASSERT_EQ(truncate(path_.c_str(), 8000001), 0);
  EXPECT_EQ(read(path_), begin + "File too large (os error 27)");
}

} // namespace
