// A server for one test, and what to do with its connections.
#ifndef NF_TESTS_UNIT_EXPORTER_SERVER_H
#define NF_TESTS_UNIT_EXPORTER_SERVER_H

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>

// Listens on a port of its own and treats each connection as told, one after the other.
class Server {
public:
  explicit Server(std::function<void(int)> handler, const char *address = "127.0.0.1") {
    bool v6 = strchr(address, ':') != nullptr;
    listener = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in v4name = {};
    sockaddr_in6 v6name = {};
    v4name.sin_family = AF_INET;
    v6name.sin6_family = AF_INET6;
    inet_pton(v6 ? AF_INET6 : AF_INET, address, v6 ? static_cast<void *>(&v6name.sin6_addr) : &v4name.sin_addr);
    usable = v6 ? bind(listener, reinterpret_cast<sockaddr *>(&v6name), sizeof v6name) == 0
                : bind(listener, reinterpret_cast<sockaddr *>(&v4name), sizeof v4name) == 0;
    sockaddr_storage bound;
    socklen_t len = sizeof bound;
    getsockname(listener, reinterpret_cast<sockaddr *>(&bound), &len);
    port = ntohs(v6 ? reinterpret_cast<sockaddr_in6 *>(&bound)->sin6_port : reinterpret_cast<sockaddr_in *>(&bound)->sin_port);
    listen(listener, 64);
    thread = std::thread([this, handler] {
      for (int c; (c = accept(listener, nullptr, nullptr)) >= 0;) {
        handler(c);
        close(c);
      }
    });
  }
  ~Server() {
    shutdown(listener, SHUT_RDWR);
    thread.join();
    close(listener);
  }
  int listener, port;
  bool usable;
  std::thread thread;
};

inline std::string read_request(int c) {
  std::string all;
  char buffer[65536];
  while (all.size() < 5 || all.compare(all.size() - 5, 5, "0\r\n\r\n") != 0) {
    ssize_t got = recv(c, buffer, sizeof buffer, 0);
    if (got <= 0) break;
    all.append(buffer, static_cast<size_t>(got));
  }
  return all;
}

inline void answer(int c, const std::string &text) { send(c, text.data(), text.size(), MSG_NOSIGNAL); }

#endif
