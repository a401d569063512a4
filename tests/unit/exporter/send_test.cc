#include "exporter/exporter.h"
#include "exporter/fork_guard.h"
#include "exporter/token.h"

#include "helper.h"
#include "server.h"

#include <gtest/gtest.h>

#include <dirent.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace {

std::string deliver(const std::string &url, uint64_t timeout_ms, nf_token *token = nullptr, size_t size = 10) {
  nf_error error = {};
  nf_endpoint endpoint;
  if (!nf_endpoint_init_agent(&endpoint, view(url), &error)) return take(&error);
  nf_exporter *exporter = nf_exporter_new(view("lib"), view("1"), view("ruby"), nullptr, &endpoint, &error);
  if (!exporter) return take(&error);
  std::vector<uint8_t> data(size, 'x');
  std::string name = "f";
  nf_file file = {view(name), data.data(), data.size()};
  nf_report report = {};
  report.files = &file;
  report.file_count = 1;
  report.timeout_ms = timeout_ms;
  nf_request *request = nf_request_build(exporter, &report, &error);
  nf_exporter_drop(exporter);
  if (!request) return take(&error);
  unsigned status = 0;
  if (nf_exporter_send(request, token, &status, &error)) return std::to_string(status);
  return take(&error);
}

std::string local(const Server &server) { return "http://127.0.0.1:" + std::to_string(server.port); }

size_t open_descriptors() {
  size_t count = 0;
  DIR *d = opendir("/proc/self/fd");
  while (readdir(d)) count++;
  closedir(d);
  return count;
}

TEST(Send, ReturnsAnyFinalStatus) {
  for (const char *status : {"200", "202", "204", "302", "413", "418", "503", "999"}) {
    Server server([&](int c) {
      read_request(c);
      answer(c, std::string("HTTP/1.1 ") + status + " Some\r\nlocation: http://127.0.0.1:1/\r\n\r\n");
    });
    EXPECT_EQ(deliver(local(server), 5000), status);
  }
}

TEST(Send, SkipsInformationalResponses) {
  Server server([&](int c) {
    answer(c, "HTTP/1.1 100 Continue\r\n\r\n");
    read_request(c);
    answer(c, "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.0 201\n\n");
  });
  EXPECT_EQ(deliver(local(server), 5000), "201");
}

TEST(Send, SendsOneChunkThatHoldsTheWholeBody) {
  std::string request;
  {
    Server server([&](int c) {
      request = read_request(c);
      answer(c, "HTTP/1.1 200 OK\r\n\r\n");
    });
    EXPECT_EQ(deliver(local(server), 5000, nullptr, 3000000), "200");
  }
  size_t body = request.find("\r\n\r\n") + 4, line = request.find("\r\n", body);
  size_t size = std::stoul(request.substr(body, line - body), nullptr, 16);
  EXPECT_EQ(request.substr(line + 2 + size), "\r\n0\r\n\r\n");
  EXPECT_GT(size, 3000000u);
}

TEST(Send, AnswersThatComeBeforeTheUploadEndsCount) {
  Server server([&](int c) {
    char some[1000];
    EXPECT_GT(recv(c, some, sizeof some, 0), 0);
    answer(c, "HTTP/1.1 413 Too Large\r\n\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  EXPECT_EQ(deliver(local(server), 5000, nullptr, 20000000), "413");
}

TEST(Send, SaysWhatIsWrongWithAnAnswer) {
  const struct {
    const char *answer, *expected;
  } cases[] = {
      {"", "connection closed before message completed"},
      {"HTTP/1.1 200 OK\r\nfoo: b", "connection closed before message completed"},
      {"hello\r\n\r\n", "invalid HTTP version parsed"},
      {"\x16\x03\x01", "invalid HTTP version parsed"},
      {"HTTP/2.0 200 OK\r\n\r\n", "invalid HTTP version parsed"},
      {"HTTP/1.1 abc\r\n\r\n", "invalid HTTP status-code parsed"},
      {"HTTP/1.1 20\r\n\r\n", "invalid HTTP status-code parsed"},
      {"HTTP/1.1 2000\r\n\r\n", "invalid HTTP status-code parsed"},
      {"HTTP/1.1 099\r\n\r\n", "invalid HTTP status-code parsed"},
      {"HTTP/1.1 200 OK\r\nfoo bar\r\n\r\n", "invalid HTTP header parsed"},
      {"HTTP/1.1 200 OK\r\n: bar\r\n\r\n", "invalid HTTP header parsed"},
      {"HTTP/1.1 200 OK\r\na: b\x01\r\n\r\n", "invalid HTTP header parsed"},
      {"HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n", "invalid HTTP header parsed"},
  };
  for (const auto &c : cases) {
    Server server([&](int descriptor) {
      read_request(descriptor);
      answer(descriptor, c.answer);
    });
    EXPECT_EQ(deliver(local(server), 5000), c.expected) << c.answer;
  }
}

TEST(Send, BoundsTheHeadersItReads) {
  for (const char *piece : {"x-header: y\r\n", "x"}) {
    Server server([&](int c) {
      read_request(c);
      answer(c, "HTTP/1.1 200 OK\r\na: ");
      std::string many;
      while (many.size() < 60000) many += piece;
      for (int i = 0; i < 10; i++) answer(c, many);
    });
    EXPECT_EQ(deliver(local(server), 5000), "message head is too large");
  }
  Server server([&](int c) {
    read_request(c);
    std::string many;
    for (int i = 0; i < 100; i++) many += "HTTP/1.1 100 Continue\r\n\r\n";
    answer(c, many);
  });
  EXPECT_EQ(deliver(local(server), 5000), "too many informational responses");
}

TEST(Send, SaysWhyItCannotConnect) {
  EXPECT_EQ(deliver("http://127.0.0.1:1", 5000),
            "error trying to connect: tcp connect error: Connection refused (os error 111): tcp connect error: Connection "
            "refused (os error 111): Connection refused (os error 111)");
  EXPECT_EQ(deliver("http://127.0.0.1:0", 5000).substr(0, 24), "error trying to connect:");
  EXPECT_EQ(deliver("unix:///nowhere/at/all", 5000),
            "error trying to connect: No such file or directory (os error 2): No such file or directory (os error 2)");
  EXPECT_EQ(deliver("unix:///" + std::string(107, 'x'), 5000),
            "error trying to connect: the path of the unix socket has 108 bytes, the system allows 107");
  EXPECT_EQ(deliver("ftp://h/", 5000), "error trying to connect: Unsupported scheme ftp: Unsupported scheme ftp");
}

TEST(Send, FindsLocalhostWhicheverAddressItListensOn) {
  auto ok = [](int c) {
    read_request(c);
    answer(c, "HTTP/1.1 200 OK\r\n\r\n");
  };
  Server v4(ok, "127.0.0.1"), v6(ok, "::1");
  EXPECT_EQ(deliver("http://localhost:" + std::to_string(v4.port), 5000), "200");
  EXPECT_EQ(deliver("http://some.name.LOCALHOST.:" + std::to_string(v4.port), 5000), "200");
  if (!v6.usable) GTEST_SKIP() << "no IPv6 here";
  EXPECT_EQ(deliver("http://localhost:" + std::to_string(v6.port), 5000), "200");
  EXPECT_EQ(deliver("http://[::1]:" + std::to_string(v6.port), 5000), "200");
}

TEST(Send, ReachesUnixSocketsUnderAnyPath) {
  char folder[] = "/tmp/nf send \xC3\xA9 XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  for (size_t length : {size_t{0}, size_t{107}}) {
    std::string path = std::string(folder) + "/%20\xFF";
    while (path.size() < length) path += 'x';
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path, path.data(), path.size());
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&name), sizeof name), 0);
    listen(listener, 1);
    std::string request;
    std::thread thread([&] {
      int c = accept(listener, nullptr, nullptr);
      request = read_request(c);
      answer(c, "HTTP/1.1 200 OK\r\n\r\n");
      close(c);
    });
    EXPECT_EQ(deliver("unix://" + path, 5000), "200");
    thread.join();
    EXPECT_NE(request.find("\r\nhost: 2f746d702f6e662073656e6420c3a920"), std::string::npos);
    close(listener);
    unlink(path.c_str());
  }
  rmdir(folder);
}

TEST(Send, EndsWhenTheTimeIsUp) {
  Server silent([&](int c) { read_request(c); std::this_thread::sleep_for(std::chrono::milliseconds(300)); });
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(deliver(local(silent), 100), "operation timed out");
  auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, std::chrono::milliseconds(100));
  EXPECT_EQ(deliver(local(silent), 1).find("operation timed out"), 0u);
  Server quick([&](int c) { read_request(c); answer(c, "HTTP/1.1 200 OK\r\n\r\n"); });
  EXPECT_EQ(deliver(local(quick), 0), "200");          // no limit
  EXPECT_EQ(deliver(local(quick), UINT64_MAX), "200"); // nor this
}

TEST(Send, EndsWhenItIsCancelled) {
  Server silent([&](int c) { read_request(c); std::this_thread::sleep_for(std::chrono::milliseconds(300)); });
  nf_token *token = nf_token_new();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(nf_token_cancel(token));
  });
  EXPECT_EQ(deliver(local(silent), 60000, token), "operation cancelled by user");
  other.join();
  EXPECT_EQ(deliver(local(silent), 60000, token), "operation cancelled by user"); // for good
  nf_token_drop(token);
}

TEST(Send, LeavesNoDescriptorOpen) {
  Server server([&](int c) { read_request(c); answer(c, "HTTP/1.1 200 OK\r\n\r\n"); });
  nf_token *token = nf_token_new();
  deliver(local(server), 5000, token);
  size_t before = open_descriptors();
  for (int i = 0; i < 20; i++) {
    deliver(local(server), 5000, token);
    deliver("http://127.0.0.1:1", 5000, token);
    deliver("unix:///none", 5000, token);
    deliver("http://nosuch.invalid", 1, token);
  }
  EXPECT_LE(open_descriptors(), before + 1); // the server may be about to close one
  nf_token_drop(token);
}

TEST(Token, IsSetOnceAndWakesAllWhoWait) {
  nf_token *token = nf_token_new(), *same = nf_token_acquire(token);
  nf_token_waiter early[3] = {}, late = {};
  for (auto &w : early) {
    w.wake = eventfd(0, EFD_NONBLOCK);
    nf_token_attach(token, &w);
  }
  nf_token_detach(token, &early[1]);
  EXPECT_FALSE(nf_token_is_cancelled(token));
  nf_token_drop(token);
  EXPECT_FALSE(nf_token_is_cancelled(same));
  EXPECT_TRUE(nf_token_cancel(same));
  EXPECT_FALSE(nf_token_cancel(same));
  EXPECT_FALSE(nf_token_cancel(nullptr));
  late.wake = eventfd(0, EFD_NONBLOCK);
  nf_token_attach(same, &late);
  auto readable = [](const nf_token_waiter &w) {
    pollfd p = {w.wake, POLLIN, 0};
    return poll(&p, 1, 0) == 1;
  };
  EXPECT_TRUE(readable(early[0]));
  EXPECT_FALSE(readable(early[1]));
  EXPECT_TRUE(readable(early[2]));
  EXPECT_TRUE(readable(late));
  nf_token_detach(same, &early[0]);
  nf_token_detach(same, &early[2]);
  nf_token_detach(same, &late);
  for (auto &w : early) close(w.wake);
  close(late.wake);
  nf_token_drop(same);
}

TEST(Fork, ChildSendsWhileThreadsOfTheParentDo) {
  std::atomic<bool> stop{false};
  std::atomic<int> served{0};
  Server server([&](int c) {
    read_request(c);
    answer(c, "HTTP/1.1 200 OK\r\n\r\n");
    served++;
  });
  std::string url = local(server);
  nf_token *token = nf_token_new();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++) {
    threads.emplace_back([&] {
      while (!stop) EXPECT_EQ(deliver(url, 60000, token, 100000), "200");
    });
  }
  for (int i = 0; i < 60; i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(120);
      // Cancelling here must not touch the parent's sends, which use the same token.
      nf_token_cancel(token);
      _exit(deliver(url, 60000) == "200" ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << i;
  }
  stop = true;
  for (auto &t : threads) t.join();
  nf_token_drop(token);
}

TEST(Fork, ChildHoldsNoneOfTheParentsConnections) {
  std::atomic<bool> inside{false}, go_on{false};
  Server server([&](int c) {
    read_request(c);
    inside = true;
    while (!go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    answer(c, "HTTP/1.1 200 OK\r\n\r\n");
  });
  size_t before = open_descriptors();
  nf_token *token = nf_token_new();
  std::thread sender([&] { EXPECT_EQ(deliver(local(server), 10000, token), "200"); });
  while (!inside) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  pid_t child = fork();
  // The server's connection is not the exporter's affair; its socket and its eventfd are.
  if (child == 0) _exit(open_descriptors() == before + 1 ? 0 : 1);
  EXPECT_EQ(open_descriptors(), before + 3);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  go_on = true;
  sender.join();
  nf_token_drop(token);
}

TEST(Fork, WaitsForWhoeverIsInsideTheGuard) {
  ASSERT_TRUE(nf_fork_guard_prepare());
  std::atomic<bool> inside{false};
  std::atomic<int> stage{0};
  std::thread other([&] {
    nf_fork_guard_enter();
    nf_fork_guard_enter(); // nests
    inside = true;
    stage = 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    nf_fork_guard_leave();
    stage = 2;
    nf_fork_guard_leave();
  });
  while (!inside) std::this_thread::yield();
  pid_t child = fork();
  if (child == 0) {
    other.detach(); // does not exist here
    nf_fork_guard_enter();
    nf_fork_guard_leave();
    _exit(stage == 2 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  other.join();
  // From inside, as a signal handler might: no deadlock.
  nf_fork_guard_enter();
  child = fork();
  if (child == 0) {
    nf_fork_guard_leave();
    nf_fork_guard_enter();
    nf_fork_guard_leave();
    _exit(0);
  }
  nf_fork_guard_leave();
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

} // namespace
