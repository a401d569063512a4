#include "exporter/spool.h"

#include "exporter/exporter.h"
#include "helper.h"

#include <gtest/gtest.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <vector>

namespace {

class Spool : public ::testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/nf-spool-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root = name;
    folder = root + "/spool";
  }
  void TearDown() override { EXPECT_EQ(system(("rm -rf " + root).c_str()), 0); }

  nf_request *request(const std::string &data, const std::string &key = "") {
    nf_error error = {};
    nf_endpoint endpoint;
    if (key.empty()) EXPECT_TRUE(nf_endpoint_init_agent(&endpoint, view("file://" + folder), &error));
    else EXPECT_TRUE(nf_endpoint_init_agentless(&endpoint, view("site"), view(key), &error));
    nf_exporter *exporter = nf_exporter_new(view("lib\xC3\xA9"), view("1.2"), view("ruby"), nullptr, &endpoint, &error);
    std::string first = "a.pprof", second = "b.json";
    nf_file plain = {view(first), reinterpret_cast<const uint8_t *>(data.data()), data.size()};
    nf_file compressed = {view(second), reinterpret_cast<const uint8_t *>("{}"), 2};
    nf_report report = {};
    report.files = &plain;
    report.file_count = 1;
    report.files_to_compress = &compressed;
    report.file_to_compress_count = 1;
    nf_request *made = nf_request_build(exporter, &report, &error);
    nf_exporter_drop(exporter);
    return made;
  }
  std::string write(const std::string &data, uint64_t limit = NF_SPOOL_MAX_BYTES, const std::string &key = "") {
    nf_request *r = request(data, key);
    nf_error error = {};
    std::string result = nf_spool_write_limited(folder.c_str(), r, nullptr, limit, &error) ? "ok" : take(&error);
    nf_request_drop(r);
    return result;
  }
  std::vector<std::string> names() {
    std::vector<std::string> found;
    if (DIR *d = opendir(folder.c_str())) {
      while (dirent *e = readdir(d))
        if (e->d_name[0] != '.') found.push_back(e->d_name);
      closedir(d);
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string read(const std::string &name) {
    std::ifstream in(folder + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  std::string root, folder;
};

// As much of MessagePack as a report uses, read independently of the writer: gives "key=value" for every leaf.
struct Reader {
  explicit Reader(const std::string &document) : s(document) {}

  const std::string &s;
  size_t at = 0;
  std::map<std::string, std::string> leaves;
  size_t crc_begins = 0;

  uint64_t number(int bytes) {
    uint64_t n = 0;
    while (bytes--) n = n << 8 | static_cast<uint8_t>(s.at(at++));
    return n;
  }
  std::string bytes(size_t n) {
    std::string b = s.substr(at, n);
    EXPECT_EQ(b.size(), n);
    at += n;
    return b;
  }
  std::string scalar(uint8_t type) {
    if (type <= 0x7F) return std::to_string(type);
    if (type >= 0xA0 && type <= 0xBF) return bytes(type & 0x1F);
    switch (type) {
      case 0xC2: return "false";
      case 0xC3: return "true";
      case 0xC4: case 0xD9: return bytes(number(1));
      case 0xC5: case 0xDA: return bytes(number(2));
      case 0xC6: case 0xDB: return bytes(number(4));
      case 0xCC: return std::to_string(number(1));
      case 0xCD: return std::to_string(number(2));
      case 0xCE: return std::to_string(number(4));
    }
    ADD_FAILURE() << "unexpected type " << int{type};
    return "";
  }
  void value(const std::string &path) {
    uint8_t type = static_cast<uint8_t>(s.at(at++));
    if (type >= 0x80 && type <= 0x8F) {
      for (int n = type & 0xF; n > 0; n--) {
        size_t begin = at;
        std::string key = scalar(static_cast<uint8_t>(s.at(at++)));
        if (key == "crc32") crc_begins = begin;
        value(path.empty() ? key : path + "." + key);
      }
    } else if (type >= 0x90 && type <= 0x9F) {
      for (int i = 0, n = type & 0xF; i < n; i++) value(path + "." + std::to_string(i));
    } else leaves[path] = scalar(type);
  }
};

TEST_F(Spool, WritesOneDocumentThatHoldsTheReport) {
  std::string data(70000, 'p');
  ASSERT_EQ(write(data), "ok");
  ASSERT_EQ(names().size(), 1u);
  std::string name = names()[0], document = read(name);
  EXPECT_EQ(name.substr(name.size() - 7), ".ddprof");
  Reader r(document);
  r.value("");
  EXPECT_EQ(r.at, document.size());
  EXPECT_EQ(r.leaves["format"], "ddprof-report");
  EXPECT_EQ(r.leaves["version"], "1");
  EXPECT_EQ(r.leaves["path"], "/profiling/v1/input");
  EXPECT_EQ(r.leaves["headers.dd-evp-origin"], "lib\xC3\xA9");
  EXPECT_EQ(r.leaves["headers.user-agent"], "DDProf/6.0.0");
  EXPECT_EQ(r.leaves["files.0.name"], "b.json");
  EXPECT_EQ(r.leaves["files.0.compressed"], "true");
  EXPECT_EQ(r.leaves["files.0.data"].substr(0, 4), std::string("\x04\x22\x4D\x18", 4));
  EXPECT_EQ(r.leaves["files.1.name"], "a.pprof");
  EXPECT_EQ(r.leaves["files.1.compressed"], "false");
  EXPECT_EQ(r.leaves["files.1.data"], data);
  EXPECT_EQ(r.leaves["event"].substr(0, 36), R"({"attachments":["b.json","a.pprof"],)");
  for (const char *gone : {"connection", "host", "transfer-encoding", "content-type"})
    EXPECT_EQ(r.leaves.count(std::string("headers.") + gone), 0u);
  EXPECT_EQ(r.leaves["crc32"],
            std::to_string(crc32(0, reinterpret_cast<const Bytef *>(document.data()), static_cast<uInt>(r.crc_begins))));
}

TEST_F(Spool, IsWrittenThroughAnAgentUrl) {
  nf_error error = {};
  unsigned status = 0;
  ASSERT_TRUE(nf_exporter_send(request("x"), nullptr, &status, &error));
  EXPECT_EQ(status, 200u);
  EXPECT_EQ(names().size(), 1u);
}

TEST_F(Spool, HoldsNoKey) {
  ASSERT_EQ(write("x", NF_SPOOL_MAX_BYTES, "S3CR3TKEY"), "ok");
  EXPECT_EQ(read(names()[0]).find("S3CR3TKEY"), std::string::npos);
}

TEST_F(Spool, IsForItsOwnerOnly) {
  umask(0);
  ASSERT_EQ(write("x"), "ok");
  umask(022);
  struct stat about;
  ASSERT_EQ(stat((folder + "/" + names()[0]).c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0600u);
  ASSERT_EQ(stat(folder.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0700u);
}

TEST_F(Spool, RefusesSymbolicLinks) {
  ASSERT_EQ(mkdir((root + "/elsewhere").c_str(), 0700), 0);
  ASSERT_EQ(symlink((root + "/elsewhere").c_str(), folder.c_str()), 0);
  EXPECT_EQ(write("x").find("cannot open the folder " + folder + ": "), 0u);
  unlink(folder.c_str());
  std::ofstream(folder) << "a file";
  EXPECT_EQ(write("x"), "cannot open the folder " + folder + ": Not a directory (os error 20)");
}

TEST_F(Spool, SaysWhenItCannotWrite) {
  folder = root + "/no/such";
  EXPECT_EQ(write("x"), "cannot open the folder " + folder + ": No such file or directory (os error 2)");
}

TEST_F(Spool, SaysWhenAFileMayNotBeSoLarge) {
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  rlimit before, small = {4096, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &before);
  small.rlim_max = before.rlim_max;
  setrlimit(RLIMIT_FSIZE, &small);
  std::string result = write(std::string(100000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(result, "cannot write into " + folder + ": File too large (os error 27)");
  EXPECT_TRUE(names().empty());
}

TEST_F(Spool, RemovesTheOldestFirst) {
  std::string kilobytes(20000, 'x');
  std::vector<std::string> all;
  for (int i = 0; i < 5; i++) {
    ASSERT_EQ(write(kilobytes, 65000), "ok");
    all.push_back(names().back());
  }
  EXPECT_EQ(names(), std::vector<std::string>(all.end() - 3, all.end()));
  EXPECT_EQ(write(std::string(70000, 'x'), 65000).find("the report ("), 0u);
  EXPECT_EQ(names().size(), 3u);
}

TEST_F(Spool, TouchesNoFilesOfOthers) {
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  std::ofstream(folder + "/notes.txt") << std::string(100000, 'n');
  std::ofstream(folder + "/other.tmp") << "old";
  ASSERT_EQ(symlink("/etc/hostname", (folder + "/00000000.ddprof").c_str()), 0);
  std::ofstream(folder + "/half.ddprof.tmp") << "killed writer";
  std::ofstream(folder + "/fresh.ddprof.tmp") << "other writer";
  utimbuf old = {1, 1};
  utime((folder + "/half.ddprof.tmp").c_str(), &old);
  utime((folder + "/other.tmp").c_str(), &old);
  for (int i = 0; i < 3; i++) ASSERT_EQ(write(std::string(20000, 'x'), 45000), "ok");
  auto left = names();
  EXPECT_EQ(left.size(), 6u); // two reports, and all but the leftover of a killed writer
  EXPECT_EQ(std::count(left.begin(), left.end(), "half.ddprof.tmp"), 0);
}

} // namespace
