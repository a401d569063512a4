#include "exporter/request.h"

#include "exporter/exporter.h"
#include "helper.h"

#include <gtest/gtest.h>

#include <lz4frame.h>

#include <deque>
#include <string>
#include <vector>

namespace {

struct Report {
  nf_report report = {};
  std::deque<std::string> kept; // what the report borrows
  std::vector<nf_file> compress, files;
  nf_tags tags = {};
  nf_text internal, info;
  std::string name = "lib", version = "1", family = "ruby", url = "http://h:1/";
  std::vector<std::string> exporter_tags;
  std::string key, site;

  Report() {
    report.start = {1700000000, 1};
    report.end = {1700000060, 2};
  }
  ~Report() { nf_tags_deinit(&tags); }
  nf_text keep(const std::string &s) { return view(kept.emplace_back(s)); }
  void file(std::vector<nf_file> *list, const std::string &name, const std::string &data) {
    nf_text own = keep(name);
    const std::string &bytes = kept.emplace_back(data);
    list->push_back(nf_file{own, reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  }

  nf_request *build(std::string *why) {
    nf_error error = {};
    nf_endpoint endpoint;
    bool ok = key.empty() ? nf_endpoint_init_agent(&endpoint, view(url), &error)
                          : nf_endpoint_init_agentless(&endpoint, view(site), view(key), &error);
    EXPECT_TRUE(ok);
    nf_tags own = {};
    for (const std::string &t : exporter_tags) EXPECT_TRUE(nf_tags_push(&own, view(t), &error));
    nf_exporter *exporter = nf_exporter_new(view(name), view(version), view(family), &own, &endpoint, &error);
    nf_tags_deinit(&own);
    EXPECT_NE(exporter, nullptr);
    report.files_to_compress = compress.data();
    report.file_to_compress_count = compress.size();
    report.files = files.data();
    report.file_count = files.size();
    report.tags = &tags;
    nf_request *request = nf_request_build(exporter, &report, &error);
    nf_exporter_drop(exporter); // a request needs nothing of its exporter any more
    *why = request ? "" : take(&error);
    return request;
  }
  std::string event() {
    std::string why;
    nf_request *request = build(&why);
    if (!request) return why;
    std::string s(request->event.data, request->event.len);
    nf_request_drop(request);
    return s;
  }
  std::string head() {
    std::string why;
    nf_request *request = build(&why);
    if (!request) return why;
    std::string s(request->head.data, request->head.len), boundary = request->boundary;
    size_t at = s.find(boundary);
    if (at != std::string::npos) s.replace(at, boundary.size(), "BOUNDARY");
    nf_request_drop(request);
    return s;
  }
  std::string body() {
    std::string why;
    nf_request *request = build(&why);
    if (!request) return why;
    std::string s(request->body.data, request->body.len), boundary = request->boundary;
    for (size_t at; (at = s.find(boundary)) != std::string::npos;) s.replace(at, boundary.size(), "B");
    nf_request_drop(request);
    return s;
  }
};

TEST(Event, HasNineKeysInOrderAndNothingElse) {
  Report r;
  EXPECT_EQ(r.event(), R"({"attachments":[],"end":"2023-11-14T22:14:20.000000002Z","endpoint_counts":null,"family":"ruby",)"
                       R"("info":{},"internal":{},"start":"2023-11-14T22:13:20.000000001Z","tags_profiler":"","version":"4"})");
}

TEST(Event, ListsFilesTagsAndCounts) {
  Report r;
  r.file(&r.files, "b.pprof", "x");
  r.file(&r.compress, "a\"\n.json", "y");
  r.file(&r.files, "\xFF", "z");
  r.exporter_tags = {"e:2", "e:1,x"};
  nf_error error = {};
  ASSERT_TRUE(nf_tags_push(&r.tags, view("r:1"), &error));
  nf_endpoint_count counts[] = {{r.keep(""), 0}, {r.keep("a/\"b\""), INT64_MIN}, {r.keep("b"), INT64_MAX}};
  r.report.with_endpoint_counts = true;
  r.report.endpoint_counts = counts;
  r.report.endpoint_count_count = 3;
  std::string event = r.event();
  EXPECT_NE(event.find(R"("attachments":["a\"\n.json","b.pprof","{invalid utf-8}"])"), std::string::npos) << event;
  EXPECT_NE(event.find(R"("tags_profiler":"e:2,e:1,x,r:1")"), std::string::npos) << event;
  EXPECT_NE(event.find(R"("endpoint_counts":{"":0,"a/\"b\"":-9223372036854775808,"b":9223372036854775807})"),
            std::string::npos)
      << event;
  r.report.endpoint_count_count = 0;
  EXPECT_NE(r.event().find(R"("endpoint_counts":{})"), std::string::npos);
}

TEST(Event, TakesAnyJsonAndNamesWhatIsNone) {
  Report r;
  r.internal = r.keep("\"text\"");
  r.info = r.keep("[ 1 ]");
  r.report.internal_json = &r.internal;
  r.report.info_json = &r.info;
  EXPECT_NE(r.event().find(R"("info":[1],"internal":"text")"), std::string::npos);
  r.info = r.keep("[1");
  EXPECT_EQ(r.event(), "Failed to parse contents of info json string (`[1`): EOF while parsing a list at line 1 column 2.");
  r.internal = nf_text{nullptr, 0};
  EXPECT_EQ(r.event(), "Failed to parse contents of internal_metadata json string (``): EOF while parsing a value at line 1 "
                       "column 0.");
  r.internal = r.keep("\"\xFF\"");
  EXPECT_EQ(r.event(), "invalid utf-8 sequence of 1 bytes from index 1");
}

TEST(Head, HasTheHeadersInOrder) {
  Report r;
  std::string head = r.head();
  // A container id, if this test runs in one, is not this test's matter.
  size_t at = head.find("datadog-container-id");
  if (at != std::string::npos) head.erase(at, head.find("\r\n", at) + 2 - at);
  EXPECT_EQ(head, "POST /profiling/v1/input HTTP/1.1\r\nuser-agent: DDProf/6.0.0\r\nconnection: close\r\n"
                  "dd-evp-origin: lib\r\ndd-evp-origin-version: 1\r\n"
                  "content-type: multipart/form-data; boundary=BOUNDARY\r\nhost: h:1\r\n"
                  "transfer-encoding: chunked\r\n\r\n");
  r.site = "example.com";
  r.key = "k3y";
  head = r.head();
  EXPECT_EQ(head.find("POST /api/v2/profile HTTP/1.1\r\nuser-agent: DDProf/6.0.0\r\ndd-api-key: k3y\r\n"), 0u) << head;
  EXPECT_NE(head.find("\r\nhost: intake.profile.example.com\r\n"), std::string::npos);
}

TEST(Head, NeverTakesAControlCharacter) {
  for (int c = 0; c < 0x20; c++) {
    for (int field = 0; field < 3; field++) {
      Report r;
      std::string bad = std::string("a") + static_cast<char>(c) + "x: y";
      if (field == 0) r.name = bad;
      else if (field == 1) r.version = bad;
      else if (c == 0) continue; // refused with the endpoint already
      else r.site = "s", r.key = bad;
      if (c == '\t') EXPECT_NE(r.head().find("a\tx: y"), std::string::npos);
      else EXPECT_EQ(r.head(), "failed to parse header value") << c;
    }
  }
  Report r;
  r.name = "\x7F";
  EXPECT_EQ(r.head(), "failed to parse header value");
  r.name = "\xC3\xA9\xFF";
  EXPECT_NE(r.head().find("dd-evp-origin: \xC3\xA9\xEF\xBF\xBD\r\n"), std::string::npos);
}

std::string part(const std::string &name, const std::string &type, const std::string &data) {
  return "--B\r\ncontent-type: " + type + "\r\ncontent-disposition: form-data; name=\"" + name + "\"; filename=\"" +
         (name == "event" ? "event.json" : name) + "\"\r\n\r\n" + data + "\r\n";
}

TEST(Body, IsEventThenCompressedThenOtherFiles) {
  Report r;
  std::string noise("\0\r\n--B\r\n\xFF", 9);
  r.file(&r.files, "x.pprof", noise);
  r.file(&r.files, "empty", "");
  EXPECT_EQ(r.body(), part("event", "application/json", r.event()) + part("x.pprof", "application/octet-stream", noise) +
                          part("empty", "application/octet-stream", "") + "--B--\r\n");
}

TEST(Body, EscapesFileNames) {
  Report r;
  r.file(&r.files, "a\"; x=\"y\r\nz: 1\r\n\r\n", "data");
  std::string body = r.body();
  EXPECT_NE(body.find("name=\"a%22; x=%22y%0D%0Az: 1%0D%0A%0D%0A\"; filename=\"a%22; x=%22y%0D%0Az: 1%0D%0A%0D%0A\"\r\n\r\n"
                      "data\r\n"),
            std::string::npos)
      << body;
}

std::string decompress(const std::string &frame) {
  LZ4F_dctx *context;
  EXPECT_FALSE(LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)));
  std::string out;
  size_t at = 0, left = 1;
  while (left != 0 && at < frame.size()) {
    char buffer[65536];
    size_t written = sizeof buffer, read = frame.size() - at;
    left = LZ4F_decompress(context, buffer, &written, frame.data() + at, &read, nullptr);
    if (LZ4F_isError(left)) return "not a frame";
    out.append(buffer, written);
    at += read;
  }
  LZ4F_freeDecompressionContext(context);
  return left == 0 && at == frame.size() ? out : "incomplete";
}

TEST(Body, HoldsCompressedFilesAsOneFrameEach) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{65536}, size_t{65537}, size_t{1000000}}) {
    Report r;
    std::string data;
    for (size_t i = 0; i < size; i++) data += static_cast<char>(i * i % 251 ^ i >> 8);
    r.file(&r.compress, "f", data);
    std::string why;
    nf_request *request = r.build(&why);
    ASSERT_NE(request, nullptr) << why;
    ASSERT_EQ(request->part_count, 1u);
    std::string frame(request->body.data + request->parts[0].data, request->parts[0].len);
    nf_request_drop(request);
    EXPECT_EQ(decompress(frame), data) << size;
    EXPECT_EQ(frame.substr(0, 7), std::string("\x04\x22\x4D\x18\x60\x40\x82", 7)) << size;
  }
}

TEST(Body, HasABoundaryOfItsOwnThatIsLongAndPlain) {
  Report r;
  std::string why;
  nf_request *a = r.build(&why), *b = r.build(&why);
  EXPECT_STRNE(a->boundary, b->boundary);
  std::string boundary = a->boundary;
  EXPECT_GE(boundary.size(), 16u);
  for (char c : boundary) EXPECT_TRUE(isalnum(static_cast<unsigned char>(c)));
  nf_request_drop(a);
  nf_request_drop(b);
}

TEST(Request, RefusesTimesThatCannotBeWritten) {
  Report r;
  r.report.start.seconds = INT64_MAX;
  EXPECT_EQ(r.event(), "the start of the profile is out of range");
  r.report.end.seconds = INT64_MIN;
  EXPECT_EQ(r.event(), "the end of the profile is out of range");
}

} // namespace
