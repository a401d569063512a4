// The exporter through its public interface: what must not crash, what is owned by whom, which words errors have.
#include <datadog/profiling.h>

#include "server.h"

#include <gtest/gtest.h>

#include <dirent.h>

#include <string>

namespace {

ddog_CharSlice slice(const std::string &s) { return ddog_CharSlice{s.data(), s.size()}; }

std::string take(ddog_Error *error) {
  ddog_CharSlice text = ddog_Error_message(error);
  std::string s(text.ptr, text.len);
  ddog_Error_drop(error);
  ddog_Error_drop(error); // twice is harmless
  return s;
}

const ddog_CharSlice NOTHING = {nullptr, 0};

std::string made(ddog_prof_Exporter_NewResult result, ddog_prof_Exporter **exporter = nullptr) {
  if (result.tag == DDOG_PROF_EXPORTER_NEW_RESULT_ERR) return take(&result.err);
  if (exporter) *exporter = result.ok;
  else ddog_prof_Exporter_drop(result.ok);
  return "ok";
}

std::string make(const std::string &url, ddog_prof_Exporter **exporter = nullptr, const ddog_Vec_Tag *tags = nullptr) {
  return made(ddog_prof_Exporter_new(NOTHING, NOTHING, NOTHING, tags, ddog_Endpoint_agent(slice(url))), exporter);
}

std::string build(ddog_prof_Exporter *exporter, ddog_prof_Exporter_Request **request = nullptr,
                  const ddog_CharSlice *internal = nullptr) {
  ddog_prof_Exporter_Request_BuildResult result =
      ddog_prof_Exporter_Request_build(exporter, {0, 0}, {0, 0}, ddog_prof_Exporter_Slice_File_empty(), {nullptr, 0}, nullptr,
                                       nullptr, internal, nullptr, 1000);
  if (result.tag == DDOG_PROF_EXPORTER_REQUEST_BUILD_RESULT_ERR) return take(&result.err);
  if (request) *request = result.ok;
  else ddog_prof_Exporter_Request_drop(&result.ok);
  return "ok";
}

std::string send(ddog_prof_Exporter *exporter, ddog_prof_Exporter_Request **request,
                 const ddog_CancellationToken *token = nullptr) {
  ddog_prof_Exporter_SendResult result = ddog_prof_Exporter_send(exporter, request, token);
  if (result.tag == DDOG_PROF_EXPORTER_SEND_RESULT_ERR) return take(&result.err);
  return std::to_string(result.http_response.code);
}

TEST(Abi, TakesNullWhereverAPointerGoes) {
  ddog_prof_Exporter_drop(nullptr);
  ddog_prof_Exporter_Request_drop(nullptr);
  ddog_prof_Exporter_Request *none = nullptr;
  ddog_prof_Exporter_Request_drop(&none);
  ddog_CancellationToken_drop(nullptr);
  EXPECT_EQ(ddog_CancellationToken_clone(nullptr), nullptr);
  EXPECT_FALSE(ddog_CancellationToken_cancel(nullptr));
  ddog_endpoint_drop(nullptr);
  ddog_Vec_Tag_drop(ddog_Vec_Tag{nullptr, 0, 0});
  ddog_Vec_Tag_PushResult pushed = ddog_Vec_Tag_push(nullptr, NOTHING, NOTHING);
  ASSERT_EQ(pushed.tag, DDOG_VEC_TAG_PUSH_RESULT_ERR);
  EXPECT_EQ(take(&pushed.err), "vector of tags was null");
  EXPECT_EQ(build(nullptr), "exporter was null");
  EXPECT_EQ(send(nullptr, nullptr), "failed ddog_prof_Exporter_send: request was null");
  EXPECT_EQ(send(nullptr, &none), "failed ddog_prof_Exporter_send: request was null");
}

TEST(Abi, SendTakesTheRequestWhateverHappens) {
  ddog_prof_Exporter *exporter;
  ASSERT_EQ(make("http://127.0.0.1:1", &exporter), "ok");
  ddog_prof_Exporter_Request *request;
  ASSERT_EQ(build(exporter, &request), "ok");
  EXPECT_EQ(send(nullptr, &request), "failed ddog_prof_Exporter_send: exporter was null");
  EXPECT_EQ(request, nullptr);
  ASSERT_EQ(build(exporter, &request), "ok");
  EXPECT_EQ(send(exporter, &request).find("failed ddog_prof_Exporter_send: error trying to connect: "), 0u);
  EXPECT_EQ(request, nullptr);
  ASSERT_EQ(build(exporter, &request), "ok");
  ddog_prof_Exporter_Request_drop(&request);
  EXPECT_EQ(request, nullptr);
  ddog_prof_Exporter_drop(exporter);
}

TEST(Abi, SendsAndCancels) {
  Server server([](int c) {
    read_request(c);
    answer(c, "HTTP/1.1 418 I'm a teapot\r\n\r\n");
  });
  ddog_prof_Exporter *exporter;
  ASSERT_EQ(make("http://127.0.0.1:" + std::to_string(server.port), &exporter), "ok");
  ddog_prof_Exporter_Request *request;
  ddog_CancellationToken *token = ddog_CancellationToken_new(), *clone = ddog_CancellationToken_clone(token);
  ASSERT_EQ(build(exporter, &request), "ok");
  EXPECT_EQ(send(exporter, &request, token), "418");
  ddog_CancellationToken_drop(token);
  ASSERT_EQ(build(exporter, &request), "ok");
  EXPECT_EQ(send(exporter, &request, clone), "418"); // dropping cancels nothing
  EXPECT_TRUE(ddog_CancellationToken_cancel(clone));
  EXPECT_FALSE(ddog_CancellationToken_cancel(clone));
  ASSERT_EQ(build(exporter, &request), "ok");
  EXPECT_EQ(send(exporter, &request, clone), "failed ddog_prof_Exporter_send: operation cancelled by user");
  ddog_CancellationToken_drop(clone);
  ddog_prof_Exporter_drop(exporter);
}

TEST(Abi, RefusesEndpointsThatAreNone) {
  EXPECT_EQ(make(""), "empty string");
  EXPECT_EQ(make("unix://"), "empty string");
  EXPECT_EQ(make("http://"), "invalid format");
  EXPECT_EQ(make("http://this:is:not:a:valid:hostname!!!!:12345/"), "invalid authority");
  EXPECT_EQ(made(ddog_prof_Exporter_new(NOTHING, NOTHING, NOTHING, nullptr, ddog_Endpoint_agent(NOTHING))), "empty string");
  ddog_Endpoint odd = ddog_Endpoint_agent(NOTHING);
  odd.tag = static_cast<ddog_Endpoint_Tag>(7);
  EXPECT_EQ(made(ddog_prof_Exporter_new(NOTHING, NOTHING, NOTHING, nullptr, odd)), "unknown kind of endpoint: 7");
  EXPECT_EQ(made(ddog_prof_Exporter_new(NOTHING, NOTHING, NOTHING, nullptr, ddog_Endpoint_agentless(NOTHING, NOTHING))), "ok");
  std::string site = "a b", key = "SECRET\n";
  std::string why = made(ddog_prof_Exporter_new(NOTHING, NOTHING, NOTHING, nullptr,
                                                ddog_Endpoint_agentless(slice(site), slice(key))));
  EXPECT_EQ(why, "invalid uri character");
  site = "example.com";
  ddog_prof_Exporter *exporter;
  ASSERT_EQ(made(ddog_prof_Exporter_new(NOTHING, NOTHING, NOTHING, nullptr, ddog_Endpoint_agentless(slice(site), slice(key))),
                 &exporter),
            "ok");
  EXPECT_EQ(build(exporter), "failed to parse header value"); // and not the key
  ddog_prof_Exporter_drop(exporter);
}

TEST(Abi, ChecksJson) {
  ddog_prof_Exporter *exporter;
  ASSERT_EQ(make("http://h", &exporter), "ok");
  EXPECT_EQ(build(exporter, nullptr, &NOTHING),
            "Failed to parse contents of internal_metadata json string (``): EOF while parsing a value at line 1 column 0.");
  std::string bad = "{\"a\":tru}";
  ddog_CharSlice json = slice(bad);
  EXPECT_EQ(build(exporter, nullptr, &json), "Failed to parse contents of internal_metadata json string (`{\"a\":tru}`): "
                                             "expected ident at line 1 column 9.");
  ddog_prof_Exporter_drop(exporter);
}

TEST(Abi, VectorsOfTagsGrowAndAreCopied) {
  ddog_Vec_Tag tags = ddog_Vec_Tag_new();
  EXPECT_NE(tags.ptr, nullptr);
  EXPECT_EQ(tags.capacity, 0u);
  for (int i = 0; i < 100; i++) {
    std::string key = "k" + std::to_string(i), value = "v";
    EXPECT_EQ(ddog_Vec_Tag_push(&tags, slice(key), slice(value)).tag, DDOG_VEC_TAG_PUSH_RESULT_OK);
  }
  EXPECT_EQ(tags.len, 100u);
  std::string colon = ":invalid", value = "invalid:";
  ddog_Vec_Tag_PushResult pushed = ddog_Vec_Tag_push(&tags, slice(colon), slice(value));
  ASSERT_EQ(pushed.tag, DDOG_VEC_TAG_PUSH_RESULT_ERR);
  EXPECT_EQ(take(&pushed.err), "tag ':invalid:invalid:' begins with a colon");
  EXPECT_EQ(tags.len, 100u);
  ddog_prof_Exporter *exporter;
  ASSERT_EQ(make("http://h", &exporter, &tags), "ok");
  ddog_Vec_Tag_drop(tags);
  EXPECT_EQ(build(exporter), "ok");
  ddog_prof_Exporter_drop(exporter);
}

TEST(Abi, ParsesTags) {
  std::string list = "a:b, c:, :d";
  ddog_Vec_Tag_ParseResult parsed = ddog_Vec_Tag_parse(slice(list));
  EXPECT_EQ(parsed.tags.len, 1u);
  ASSERT_NE(parsed.error_message, nullptr);
  EXPECT_EQ(take(parsed.error_message),
            "Errors while parsing tags: tag 'c:' ends with a colon, tag ':d' begins with a colon");
  free(parsed.error_message); // this library's own way; the interface has none
  ddog_Vec_Tag_drop(parsed.tags);
  parsed = ddog_Vec_Tag_parse(NOTHING);
  EXPECT_EQ(parsed.tags.len, 0u);
  EXPECT_EQ(parsed.error_message, nullptr);
}

TEST(Abi, HasTheOlderEndpoints) {
  std::string url = "http://localhost:8126", none = "http://", key = "k", site = "s", bad = "a b";
  ddog_Endpoint *endpoint = ddog_endpoint_from_url(slice(url));
  EXPECT_NE(endpoint, nullptr);
  ddog_endpoint_drop(endpoint);
  EXPECT_EQ(ddog_endpoint_from_url(slice(none)), nullptr);
  EXPECT_EQ(ddog_endpoint_from_url(NOTHING), nullptr);
  endpoint = ddog_endpoint_from_api_key(slice(key));
  EXPECT_NE(endpoint, nullptr);
  ddog_endpoint_drop(endpoint);
  endpoint = nullptr;
  EXPECT_EQ(ddog_endpoint_from_api_key_and_site(slice(key), slice(site), &endpoint), nullptr);
  EXPECT_NE(endpoint, nullptr);
  ddog_endpoint_drop(endpoint);
  ddog_Endpoint *untouched = reinterpret_cast<ddog_Endpoint *>(8), *before = untouched;
  ddog_Error *error = ddog_endpoint_from_api_key_and_site(slice(key), slice(bad), &untouched);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(take(error), "invalid uri character");
  free(error);
  EXPECT_EQ(untouched, before);
}

TEST(Abi, WritesReportsIntoAFolderAndSendsThemLater) {
  char folder[] = "/tmp/nf-abi-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  ddog_prof_Exporter *exporter;
  ASSERT_EQ(make(std::string("file://") + folder, &exporter), "ok");
  ddog_prof_Exporter_Request *request;
  for (int i = 0; i < 3; i++) {
    ASSERT_EQ(build(exporter, &request), "ok");
    EXPECT_EQ(send(exporter, &request), "200");
  }
  ddog_prof_Exporter_drop(exporter);

  ddog_prof_Folder_UploadCounts counts;
  std::string nobody = "http://127.0.0.1:1", path = folder;
  ddog_prof_Profile_Result result =
      ddog_prof_Folder_upload(slice(path), ddog_Endpoint_agent(slice(nobody)), 1000, nullptr, &counts);
  ASSERT_EQ(result.tag, DDOG_PROF_PROFILE_RESULT_ERR);
  EXPECT_EQ(take(&result.err).find("error trying to connect: "), 0u);
  EXPECT_EQ(counts.left, 3u);
  {
    Server server([](int c) {
      read_request(c);
      answer(c, "HTTP/1.1 202 Accepted\r\n\r\n");
    });
    std::string url = "http://127.0.0.1:" + std::to_string(server.port);
    EXPECT_EQ(ddog_prof_Folder_upload(slice(path), ddog_Endpoint_agent(slice(url)), 1000, nullptr, &counts).tag,
              DDOG_PROF_PROFILE_RESULT_OK);
  }
  EXPECT_EQ(counts.accepted, 3u);
  EXPECT_EQ(counts.rejected + counts.damaged + counts.left, 0u);
  EXPECT_EQ(rmdir(folder), 0) << "something was left behind";
  result = ddog_prof_Folder_upload(NOTHING, ddog_Endpoint_agent(slice(nobody)), 1000, nullptr, nullptr);
  ASSERT_EQ(result.tag, DDOG_PROF_PROFILE_RESULT_ERR);
  EXPECT_EQ(take(&result.err), "the folder's name is empty or contains a NUL byte");
}

} // namespace
