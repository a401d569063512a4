#include "tests/conformance/counts.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

namespace conformance {

namespace {

// Listens on a unix socket in a folder of its own, and answers one request at a time.
class Agent {
public:
  Agent() {
    const char *scratch = getenv("TEST_TMPDIR");
    std::string folder = std::string(scratch && strlen(scratch) < 60 ? scratch : "/tmp") + "/agent.XXXXXX";
    if (!mkdtemp(&folder[0])) abort();
    folder_ = folder;
    path_ = folder + "/s";
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener_, reinterpret_cast<struct sockaddr *>(&address), sizeof address) ||
        listen(listener_, 4))
      abort();
  }
  ~Agent() {
    close(listener_);
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }
  std::string Url() const { return "unix://" + path_; }

  // Takes one request and answers 200; its body without the chunks.
  std::string Serve() const {
    int connection = accept(listener_, nullptr, nullptr);
    if (connection < 0) return "";
    std::string request;
    char buffer[1 << 16];
    while (!Complete(request)) {
      ssize_t n = read(connection, buffer, sizeof buffer);
      if (n <= 0) break;
      request.append(buffer, static_cast<size_t>(n));
    }
    static const char answer[] = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    ssize_t written = write(connection, answer, sizeof answer - 1);
    (void)written;
    close(connection);
    return Dechunk(request);
  }

private:
  static bool Complete(const std::string &request) {
    return request.size() > 5 && request.compare(request.size() - 5, 5, "0\r\n\r\n") == 0;
  }
  static std::string Dechunk(const std::string &request) {
    std::string body;
    size_t at = request.find("\r\n\r\n");
    if (at == std::string::npos) return "";
    for (at += 4; at < request.size();) {
      size_t line = request.find("\r\n", at);
      size_t size = strtoul(request.c_str() + at, nullptr, 16);
      if (line == std::string::npos || size == 0) break;
      body += request.substr(line + 2, size);
      at = line + 2 + size + 2;
    }
    return body;
  }

  std::string folder_, path_;
  int listener_;
};

ddog_CharSlice Slice(const std::string &text) { return {text.data(), text.size()}; }

std::string Message(const Library &library, ddog_Error *error) {
  ddog_CharSlice message = library.ddog_Error_message(error);
  std::string text(message.ptr, message.len);
  library.ddog_Error_drop(error);
  return "(" + text + ")";
}

} // namespace

std::string EndpointCounts(const Library &library, const ddog_prof_ProfiledEndpointsStats *stats) {
  if (!library.ddog_prof_Exporter_new) return "";
  Agent agent;
  std::string url = agent.Url(), name = "conformance", body;
  ddog_prof_Exporter_NewResult made = library.ddog_prof_Exporter_new(
      Slice(name), Slice(name), Slice(name), nullptr, library.ddog_Endpoint_agent(Slice(url)));
  if (made.tag != DDOG_PROF_EXPORTER_NEW_RESULT_OK) return Message(library, &made.err);
  ddog_prof_Exporter_Slice_File none = {nullptr, 0};
  ddog_prof_Exporter_Request_BuildResult built = library.ddog_prof_Exporter_Request_build(
      made.ok, {1, 0}, {2, 0}, none, none, nullptr, stats, nullptr, nullptr, 10000);
  if (built.tag != DDOG_PROF_EXPORTER_REQUEST_BUILD_RESULT_OK) return Message(library, &built.err);
  std::thread server([&] { body = agent.Serve(); });
  ddog_prof_Exporter_SendResult sent = library.ddog_prof_Exporter_send(made.ok, &built.ok, nullptr);
  server.join();
  std::string failure = sent.tag == DDOG_PROF_EXPORTER_SEND_RESULT_ERR ? Message(library, &sent.err) : "";
  library.ddog_prof_Exporter_drop(made.ok);
  if (!failure.empty()) return failure;
  // Keys are sorted, so `family` follows; inside of names its quotes would be escaped.
  const std::string key = "\"endpoint_counts\":";
  size_t from = body.find(key), to = body.find(",\"family\":");
  if (from == std::string::npos || to == std::string::npos) return "(no endpoint_counts in the event)";
  return body.substr(from + key.size(), to - from - key.size());
}

} // namespace conformance
