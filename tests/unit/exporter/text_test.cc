#include "exporter/text.h"

#include "exporter/tags.h"
#include "helper.h"

#include <gtest/gtest.h>

namespace {

std::string check(const std::string &bytes) {
  nf_error error = {};
  return nf_text_check_utf8(view(bytes), &error) ? "ok" : take(&error);
}

std::string lossy(const std::string &bytes) {
  nf_buffer out = {};
  nf_text_append_lossy(&out, view(bytes));
  return take(&out);
}

TEST(Text, FindsTheFirstBadSequenceAndItsLength) {
  EXPECT_EQ(check(""), "ok");
  EXPECT_EQ(check("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), "ok");
  EXPECT_EQ(check(std::string("a\0b", 3)), "ok");
  EXPECT_EQ(check("\xF4\x8F\xBF\xBF"), "ok"); // U+10FFFF
  EXPECT_EQ(check("\xEE\x80\x80"), "ok");     // U+E000, just after the surrogates
  EXPECT_EQ(check("ab\xFF"), "invalid utf-8 sequence of 1 bytes from index 2");
  EXPECT_EQ(check("\xE2\x82\x58"), "invalid utf-8 sequence of 2 bytes from index 0");
  EXPECT_EQ(check("\xF0\x9F\x92\x58"), "invalid utf-8 sequence of 3 bytes from index 0");
  EXPECT_EQ(check("\xC0\x80"), "invalid utf-8 sequence of 1 bytes from index 0");
  EXPECT_EQ(check("\xF4\x90\x80\x80"), "invalid utf-8 sequence of 1 bytes from index 0");
  EXPECT_EQ(check("\xED\xA0\x80"), "invalid utf-8 sequence of 1 bytes from index 0");
  EXPECT_EQ(check("x\xE2\x82"), "incomplete utf-8 byte sequence from index 1");
  EXPECT_EQ(check("\xF0\x9F\x92"), "incomplete utf-8 byte sequence from index 0");
}

TEST(Text, ReplacesEachMaximalBadSequenceOnce) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(lossy("a\xFFz"), "a" + r + "z");
  EXPECT_EQ(lossy("\xE2\x82\x58"), r + "X");
  EXPECT_EQ(lossy("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(lossy("\xF0\x9F\x92"), r);
  EXPECT_EQ(lossy("ok \xC3\xA9"), "ok \xC3\xA9");
}

TEST(Text, ComparesAndTrims) {
  EXPECT_TRUE(nf_text_equal_ignoring_case(view("YeS"), view("yEs")));
  EXPECT_FALSE(nf_text_equal_ignoring_case(view("yes"), view("yess")));
  EXPECT_FALSE(nf_text_equal_ignoring_case(view("@"), view("`"))); // 32 apart, but no letters
  std::string padded = " \t a b \n";
  nf_text trimmed = nf_text_trim(view(padded));
  EXPECT_EQ(std::string(trimmed.ptr, trimmed.len), "a b");
  EXPECT_EQ(nf_text_trim(view("  ")).len, 0u);
}

TEST(Text, NamesSystemErrors) {
  nf_buffer out = {};
  nf_text_append_errno(&out, 111);
  EXPECT_EQ(take(&out), "Connection refused (os error 111)");
}

std::string push(nf_tags *tags, const std::string &key, const std::string &value) {
  nf_error error = {};
  return nf_tags_push_pair(tags, view(key), view(value), &error) ? "ok" : take(&error);
}

std::string joined(const nf_tags *tags) {
  nf_buffer out = {};
  bool first = true;
  nf_tags_join(tags, &out, &first);
  return take(&out);
}

TEST(Tags, AreRefusedOnlyForColonsAtTheirEnds) {
  nf_tags tags = {};
  EXPECT_EQ(push(&tags, "", "woof"), "tag ':woof' begins with a colon");
  EXPECT_EQ(push(&tags, "key1", ""), "tag 'key1:' ends with a colon");
  EXPECT_EQ(push(&tags, "", ""), "tag ':' begins with a colon");
  EXPECT_EQ(push(&tags, ":a", "b"), "tag ':a:b' begins with a colon");
  EXPECT_EQ(push(&tags, "a", "b:"), "tag 'a:b:' ends with a colon");
  EXPECT_EQ(tags.len, 0u);
  EXPECT_EQ(push(&tags, "env", "a b,c"), "ok");
  EXPECT_EQ(push(&tags, "UPPER", std::string(300, 'x')), "ok");
  EXPECT_EQ(push(&tags, "bad", "\xFF"), "ok");
  EXPECT_EQ(push(&tags, "a:b", "c"), "ok");
  EXPECT_EQ(tags.len, 4u);
  EXPECT_EQ(tags.capacity, 4u);
  EXPECT_EQ(joined(&tags), "env:a b,c,UPPER:" + std::string(300, 'x') + ",bad:\xEF\xBF\xBD,a:b:c");
  EXPECT_EQ(push(&tags, "fifth", "1"), "ok");
  EXPECT_EQ(tags.capacity, 8u);
  nf_tags_deinit(&tags);
  nf_tags_deinit(&tags);
}

std::string parse(const std::string &list, std::string *all) {
  nf_tags tags = {};
  nf_error error = {};
  std::string result = nf_tags_parse(&tags, view(list), &error) ? "ok" : take(&error);
  *all = joined(&tags);
  nf_tags_deinit(&tags);
  return result;
}

TEST(Tags, ParseListsAndNameAllThatIsWrong) {
  std::string all;
  EXPECT_EQ(parse("env:staging:east, tags:, env_staging:east", &all),
            "Errors while parsing tags: tag 'tags:' ends with a colon");
  EXPECT_EQ(all, "env:staging:east,env_staging:east");
  EXPECT_EQ(parse(",, a:b ,,plain ", &all), "ok");
  EXPECT_EQ(all, "a:b,plain");
  EXPECT_EQ(parse("", &all), "ok");
  EXPECT_EQ(all, "");
  EXPECT_EQ(parse(":x y: a\tb", &all),
            "Errors while parsing tags: tag ':x' begins with a colon, tag 'y:' ends with a colon");
  EXPECT_EQ(all, "a\tb");
}

} // namespace
