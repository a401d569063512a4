#include "exporter/endpoint.h"

#include "helper.h"

#include <gtest/gtest.h>

namespace {

// "kind address port host path", or the error.
std::string agent(const std::string &url) {
  nf_endpoint endpoint;
  nf_error error = {};
  if (!nf_endpoint_init_agent(&endpoint, view(url), &error)) return "error: " + take(&error);
  static const char *const kinds[] = {"http", "https", "unix", "folder", "unreachable"};
  std::string s = kinds[endpoint.kind];
  s += " " + std::string(endpoint.address, endpoint.address_len);
  if (endpoint.kind == NF_ENDPOINT_HTTP || endpoint.kind == NF_ENDPOINT_HTTPS) s += " " + std::to_string(endpoint.port);
  if (endpoint.kind != NF_ENDPOINT_UNREACHABLE && endpoint.kind != NF_ENDPOINT_FOLDER)
    s += std::string(" ") + endpoint.host + " " + endpoint.path;
  EXPECT_EQ(endpoint.api_key, nullptr);
  nf_endpoint_deinit(&endpoint);
  nf_endpoint_deinit(&endpoint);
  return s;
}

TEST(Endpoint, UnderstandsAgentUrls) {
  const char *path = "/profiling/v1/input";
  EXPECT_EQ(agent("http://localhost:8126"), std::string("http localhost 8126 localhost:8126 ") + path);
  EXPECT_EQ(agent("http://localhost:8126/"), std::string("http localhost 8126 localhost:8126 ") + path);
  EXPECT_EQ(agent("http://h"), std::string("http h 80 h ") + path);
  EXPECT_EQ(agent("http://h:80"), std::string("http h 80 h ") + path);
  EXPECT_EQ(agent("http://h:"), std::string("http h 80 h ") + path);
  EXPECT_EQ(agent("HTTP://H:81"), std::string("http H 81 H:81 ") + path);
  EXPECT_EQ(agent("https://h/"), std::string("https h 443 h ") + path);
  EXPECT_EQ(agent("https://h:80/"), std::string("https h 80 h:80 ") + path);
  EXPECT_EQ(agent("http://[::1]:8126/"), std::string("http ::1 8126 [::1]:8126 ") + path);
  EXPECT_EQ(agent("http://[::1]"), std::string("http ::1 80 [::1] ") + path);
  EXPECT_EQ(agent("http://user:pass@h:1/a"), std::string("http h 1 h:1 /a") + path);
  EXPECT_EQ(agent("http://h/a/b/?query=1#f"), std::string("http h 80 h /a/b") + path);
  EXPECT_EQ(agent("http://h?q"), std::string("http h 80 h ") + path);
  EXPECT_EQ(agent("http://h//"), std::string("http h 80 h /") + path);
  EXPECT_EQ(agent("http://h/%20"), std::string("http h 80 h /%20") + path);
  EXPECT_EQ(agent("http://h:0"), std::string("http h 0 h:0 ") + path);
}

TEST(Endpoint, UnderstandsUnixSockets) {
  EXPECT_EQ(agent("unix:///a b/\xC3\xA9/%20"), "unix /a b/\xC3\xA9/%20 2f6120622fc3a92f253230 /profiling/v1/input");
  EXPECT_EQ(agent("unix://relative"), "unix relative 72656c6174697665 /profiling/v1/input");
  EXPECT_EQ(agent("unix:///x/"), "unix /x/ 2f782f /profiling/v1/input");
  EXPECT_EQ(agent("unix:///\xFF"), "unix /\xFF 2fff /profiling/v1/input"); // any bytes
  EXPECT_EQ(agent("unix://"), "error: empty string");
  EXPECT_EQ(agent("unix:/x"), "error: invalid format");
  EXPECT_EQ(agent(std::string("unix:///a\0b", 11)), "error: the socket's path contains a NUL byte");
}

TEST(Endpoint, UnderstandsFolders) {
  EXPECT_EQ(agent("file:///var/spool/"), "folder /var/spool");
  EXPECT_EQ(agent("file:///a%20b%C3%A9"), "folder /a b\xC3\xA9");
  EXPECT_EQ(agent("file://localhost/x"), "folder /x");
  EXPECT_EQ(agent("file:///"), "folder /");
  EXPECT_EQ(agent("file://host/x"), "error: invalid format");
  EXPECT_EQ(agent("file://"), "error: invalid format");
  EXPECT_EQ(agent("file:///a%0"), "error: invalid uri character");
  EXPECT_EQ(agent("file:///a%00b"), "error: invalid uri character");
}

TEST(Endpoint, RefusesWhatIsNoUrl) {
  EXPECT_EQ(agent(""), "error: empty string");
  EXPECT_EQ(agent("http://"), "error: invalid format");
  EXPECT_EQ(agent("http:///x"), "error: invalid format");
  EXPECT_EQ(agent("http://a b/"), "error: invalid uri character");
  EXPECT_EQ(agent("http://a\\b"), "error: invalid uri character");
  EXPECT_EQ(agent("http://h/a\r\nx: y"), "error: invalid uri character");
  EXPECT_EQ(agent("http://h\r\nx"), "error: invalid uri character");
  EXPECT_EQ(agent("http://\xC3\xA9/"), "error: invalid uri character");
  EXPECT_EQ(agent(std::string("http://a\0b/", 11)), "error: invalid uri character");
  EXPECT_EQ(agent("http://this:is:not:a:valid:hostname!!!!:12345/"), "error: invalid authority");
  EXPECT_EQ(agent("http://[::1"), "error: invalid authority");
  EXPECT_EQ(agent("http://a@/"), "error: invalid authority");
  EXPECT_EQ(agent("http://a%20b/"), "error: invalid authority");
  EXPECT_EQ(agent("http://\xFF"), "error: invalid utf-8 sequence of 1 bytes from index 7");
  EXPECT_EQ(agent("a_b://x"), "error: invalid format");
  EXPECT_EQ(agent(std::string(65, 'a') + "://x"), "error: scheme too long");
  EXPECT_EQ(agent("http://" + std::string(65535, 'a')), "error: uri too long");
}

TEST(Endpoint, SaysWhyAUrlCannotBeSentTo) {
  EXPECT_EQ(agent("localhost:8126"), "unreachable client requires absolute-form URIs");
  EXPECT_EQ(agent("/"), "unreachable client requires absolute-form URIs");
  EXPECT_EQ(agent("ftp://x/"), "unreachable error trying to connect: Unsupported scheme ftp: Unsupported scheme ftp");
  // Not the usual port instead: that would send data where nobody asked for it.
  EXPECT_EQ(agent("http://h:65536"), "unreachable error trying to connect: invalid port 65536: invalid port 65536");
  EXPECT_EQ(agent("http://h:99999999999999999999"), "unreachable error trying to connect: invalid port 99999999999999999999: "
                                                    "invalid port 99999999999999999999");
  EXPECT_EQ(agent("http://h:x"), "unreachable error trying to connect: invalid port x: invalid port x");
}

TEST(Endpoint, MakesTheIntakesUrlOfASite) {
  nf_endpoint endpoint;
  nf_error error = {};
  ASSERT_TRUE(nf_endpoint_init_agentless(&endpoint, view("datadoghq.eu"), view("secret"), &error));
  EXPECT_EQ(endpoint.kind, NF_ENDPOINT_HTTPS);
  EXPECT_STREQ(endpoint.address, "intake.profile.datadoghq.eu");
  EXPECT_EQ(endpoint.port, 443u);
  EXPECT_STREQ(endpoint.host, "intake.profile.datadoghq.eu");
  EXPECT_STREQ(endpoint.path, "/api/v2/profile");
  EXPECT_STREQ(endpoint.api_key, "secret");
  nf_endpoint copy;
  ASSERT_TRUE(nf_endpoint_copy(&copy, &endpoint, &error));
  nf_endpoint_deinit(&endpoint);
  EXPECT_STREQ(copy.api_key, "secret");
  nf_endpoint_deinit(&copy);

  ASSERT_TRUE(nf_endpoint_init_agentless(&endpoint, view("s:8443"), view(""), &error));
  EXPECT_EQ(endpoint.port, 8443u);
  EXPECT_STREQ(endpoint.host, "intake.profile.s:8443");
  nf_endpoint_deinit(&endpoint);

  EXPECT_FALSE(nf_endpoint_init_agentless(&endpoint, view("a b"), view("k"), &error));
  EXPECT_EQ(take(&error), "invalid uri character");
  EXPECT_FALSE(nf_endpoint_init_agentless(&endpoint, view("\xFF"), view("k"), &error));
  EXPECT_EQ(take(&error), "invalid utf-8 sequence of 1 bytes from index 0");
  EXPECT_FALSE(nf_endpoint_init_agentless(&endpoint, view("s"), view("k\xFF"), &error));
  EXPECT_EQ(take(&error), "invalid utf-8 sequence of 1 bytes from index 1");
}

} // namespace
