#include "exporter/upload.h"

#include "exporter/spool.h"
#include "helper.h"
#include "server.h"

#include <gtest/gtest.h>

#include <dirent.h>
#include <sys/stat.h>
#include <zlib.h>

#include <fstream>
#include <iterator>
#include <mutex>
#include <vector>

namespace {

class Upload : public ::testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/nf-upload-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder = name;
  }
  void TearDown() override { EXPECT_EQ(system(("rm -rf " + folder).c_str()), 0); }

  nf_exporter *exporter(const std::string &url, const std::string &name = "uploader") {
    nf_error error = {};
    nf_endpoint endpoint;
    EXPECT_TRUE(nf_endpoint_init_agent(&endpoint, view(url), &error));
    return nf_exporter_new(view(name), view(name), view(name), nullptr, &endpoint, &error);
  }
  // Sends one report to the URL; the same report each time but for its number.
  unsigned report(const std::string &url, int number) {
    nf_error error = {};
    nf_exporter *from = exporter(url, "library");
    std::string name = "a \"b\".pprof", data = "profile " + std::to_string(number), provenance(5000, 'p'), second = "c.json";
    nf_file plain = {view(name), reinterpret_cast<const uint8_t *>(data.data()), data.size()};
    nf_file compressed = {view(second), reinterpret_cast<const uint8_t *>(provenance.data()), provenance.size()};
    nf_report r = {};
    r.files = &plain;
    r.file_count = 1;
    r.files_to_compress = &compressed;
    r.file_to_compress_count = 1;
    nf_request *request = nf_request_build(from, &r, &error);
    nf_exporter_drop(from);
    unsigned status = 0;
    EXPECT_TRUE(nf_exporter_send(request, nullptr, &status, &error)) << take(&error);
    return status;
  }
  void spool(int count) {
    for (int i = 0; i < count; i++) EXPECT_EQ(report("file://" + folder, i), 200u);
  }
  std::string upload(int port, nf_upload_counts *counts, nf_token *token = nullptr) {
    nf_exporter *to = exporter("http://127.0.0.1:" + std::to_string(port));
    nf_error error = {};
    auto note = [](void *context, const char *, const char *outcome) {
      static_cast<std::vector<std::string> *>(context)->push_back(outcome);
    };
    outcomes.clear();
    bool ok = nf_upload_folder(folder.c_str(), to, 5000, token, note, &outcomes, counts, &error);
    nf_exporter_drop(to);
    return ok ? "ok" : take(&error);
  }
  std::vector<std::string> names() {
    std::vector<std::string> found;
    DIR *d = opendir(folder.c_str());
    while (dirent *e = readdir(d))
      if (e->d_name[0] != '.') found.push_back(e->d_name);
    closedir(d);
    return found;
  }
  std::string folder;
  std::vector<std::string> outcomes;
};

TEST_F(Upload, SendsWhatADirectReportWouldHaveBeen) {
  std::vector<std::string> requests;
  {
    Server server([&](int c) {
      requests.push_back(read_request(c));
      answer(c, "HTTP/1.1 200 OK\r\n\r\n");
    });
    EXPECT_EQ(report("http://127.0.0.1:" + std::to_string(server.port), 0), 200u);
    spool(1);
    nf_upload_counts counts;
    EXPECT_EQ(upload(server.port, &counts), "ok");
    EXPECT_EQ(counts.accepted, 1u);
  }
  ASSERT_EQ(requests.size(), 2u);
  for (std::string &r : requests) {
    size_t at = r.find("boundary=") + 9;
    std::string boundary = r.substr(at, r.find('\r', at) - at);
    for (size_t b; (b = r.find(boundary)) != std::string::npos;) r.replace(b, boundary.size(), "B");
  }
  EXPECT_EQ(requests[0], requests[1]);
  EXPECT_TRUE(names().empty());
}

TEST_F(Upload, GoesFromTheOldestToTheNewest) {
  std::vector<std::string> order;
  Server server([&](int c) {
    std::string r = read_request(c);
    order.push_back(r.substr(r.find("\r\n\r\nprofile ") + 12, 1));
    answer(c, "HTTP/1.1 202 OK\r\n\r\n");
  });
  spool(5);
  nf_upload_counts counts;
  EXPECT_EQ(upload(server.port, &counts), "ok");
  EXPECT_EQ(order, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(counts.accepted, 5u);
}

TEST_F(Upload, KeepsWhatWasNotAccepted) {
  int n = 0;
  Server server([&](int c) {
    read_request(c);
    answer(c, n++ == 1 ? "HTTP/1.1 413 Too Large\r\n\r\n" : "HTTP/1.1 200 OK\r\n\r\n");
  });
  spool(3);
  nf_upload_counts counts;
  EXPECT_EQ(upload(server.port, &counts), "ok");
  EXPECT_EQ(counts.accepted, 2u);
  EXPECT_EQ(counts.rejected, 1u);
  EXPECT_EQ(counts.last_rejection, 413u);
  EXPECT_EQ(outcomes, (std::vector<std::string>{"status 200", "status 413", "status 200"}));
  EXPECT_EQ(names().size(), 1u);
}

TEST_F(Upload, StopsWhenTheServerCannotBeReached) {
  spool(3);
  nf_upload_counts counts;
  EXPECT_EQ(upload(1, &counts).find("error trying to connect: "), 0u);
  EXPECT_EQ(counts.left, 3u);
  EXPECT_EQ(names().size(), 3u);
  nf_token *token = nf_token_new();
  nf_token_cancel(token);
  EXPECT_EQ(upload(1, &counts, token), "operation cancelled by user");
  nf_token_drop(token);
  EXPECT_EQ(names().size(), 3u);
}

TEST_F(Upload, SaysWhenThereIsNoFolder) {
  nf_upload_counts counts;
  std::string there = folder;
  folder += "/none";
  EXPECT_EQ(upload(1, &counts), "cannot open the folder " + folder + ": No such file or directory (os error 2)");
  folder = there;
  EXPECT_EQ(upload(1, &counts), "ok"); // nothing to do
}

TEST_F(Upload, PassesOverWhatIsNoWholeReport) {
  Server server([&](int c) {
    read_request(c);
    answer(c, "HTTP/1.1 200 OK\r\n\r\n");
  });
  spool(1);
  std::string path = folder + "/" + names()[0];
  std::ifstream in(path, std::ios::binary);
  std::string whole(std::istreambuf_iterator<char>(in), {});
  in.close();
  auto put = [&](const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; };
  nf_upload_counts counts;
  for (size_t i = 0; i < whole.size(); i += whole.size() > 300 ? 7 : 1) { // every cut, every flipped bit
    put(whole.substr(0, i));
    ASSERT_EQ(upload(server.port, &counts), "ok");
    ASSERT_EQ(counts.damaged, 1u) << i;
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 1 << i % 8);
    put(flipped);
    ASSERT_EQ(upload(server.port, &counts), "ok");
    ASSERT_EQ(counts.damaged, 1u) << i;
  }
  // A sum that is right over contents that are not: an array that claims four thousand million items, a header with a newline.
  auto sign = [](std::string bytes) {
    uLong sum = crc32(0, reinterpret_cast<const Bytef *>(bytes.data()), static_cast<uInt>(bytes.size()));
    bytes += "\xA5" "crc32\xCE";
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(sum >> shift);
    return bytes;
  };
  std::string evil = whole.substr(0, whole.size() - 11);
  size_t name = evil.find("library");
  ASSERT_NE(name, std::string::npos);
  evil[name + 3] = '\n';
  for (const std::string &bytes : {sign("\xDD\xFF\xFF\xFF\xFF"), sign(evil), sign("\x80"), sign("")}) {
    put(bytes);
    EXPECT_EQ(upload(server.port, &counts), "ok");
    EXPECT_EQ(counts.damaged, 1u);
  }
  put(whole + "x");
  EXPECT_EQ(upload(server.port, &counts), "ok");
  EXPECT_EQ(counts.damaged, 1u);
  put(whole);
  ASSERT_EQ(symlink(path.c_str(), (folder + "/link.ddprof").c_str()), 0);
  ASSERT_EQ(mkfifo((folder + "/fifo.ddprof").c_str(), 0600), 0);
  std::ofstream(folder + "/unfinished.ddprof.tmp") << whole;
  EXPECT_EQ(upload(server.port, &counts), "ok");
  EXPECT_EQ(counts.damaged, 0u); // links, pipes and unfinished files are not looked at
  EXPECT_EQ(counts.accepted, 1u);
  EXPECT_EQ(names().size(), 3u);
}

} // namespace
