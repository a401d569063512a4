#include "exporter/json.h"

#include "helper.h"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>

namespace {

std::string canonical(const std::string &text) {
  nf_buffer out = {};
  nf_error error = {};
  if (nf_json_canonicalize(&out, view(text), &error)) return take(&out);
  nf_buffer_deinit(&out);
  return "error: " + take(&error);
}

std::string number(double value) {
  nf_buffer out = {};
  nf_json_append_double(&out, value);
  return take(&out);
}

TEST(Json, KeepsValuesAndDropsBlanks) {
  EXPECT_EQ(canonical(" { \"a\" : [ true , false , null , \"x\" ] }\n"), R"({"a":[true,false,null,"x"]})");
  EXPECT_EQ(canonical("\t[]\r\n"), "[]");
  EXPECT_EQ(canonical("{}"), "{}");
  EXPECT_EQ(canonical("\"\""), "\"\"");
  EXPECT_EQ(canonical("[[],{},[[1]]]"), "[[],{},[[1]]]");
}

TEST(Json, SortsKeysByTheirBytesAndTheLastOfEqualKeysWins) {
  EXPECT_EQ(canonical(R"({"b":1,"a":2,"B":3,"":4,"aa":5})"), R"({"":4,"B":3,"a":2,"aa":5,"b":1})");
  EXPECT_EQ(canonical(R"({"a":1,"b":{"y":1,"x":2},"a":3})"), R"({"a":3,"b":{"x":2,"y":1}})");
  EXPECT_EQ(canonical(R"({"a":1,"\u0061":2})"), R"({"a":2})");
  // U+FF5E is EF BD 9E, U+1F600 is F0 9F 98 80: bytes, not UTF-16 units, decide.
  EXPECT_EQ(canonical("{\"\xF0\x9F\x98\x80\":1,\"\xEF\xBD\x9E\":2}"), "{\"\xEF\xBD\x9E\":2,\"\xF0\x9F\x98\x80\":1}");
  // Controls and quotes sort by what they are, not by how they are written.
  EXPECT_EQ(canonical(R"({"!":1,"\"":2,"\u0001":3,"#":4,"\n":5,"\\":6,"[":7,"]":8,"\u0000":9})"),
            R"({"\u0000":9,"\u0001":3,"\n":5,"!":1,"\"":2,"#":4,"[":7,"\\":6,"]":8})");
  EXPECT_EQ(canonical(R"({" ":4,"\u001f":1,"\u001A":2,"\u0019":3,"\u0010":5})"),
            R"({"\u0010":5,"\u0019":3,"\u001a":2,"\u001f":1," ":4})");
}

TEST(Json, KeepsIntegersOf64BitsExactly) {
  for (const char *same : {"0", "-1", "18446744073709551615", "9223372036854775808", "-9223372036854775808",
                           "9007199254740993", "12"})
    EXPECT_EQ(canonical(same), same);
}

TEST(Json, WritesOtherNumbersAsTheShortestDouble) {
  EXPECT_EQ(canonical("18446744073709551616"), "1.8446744073709552e19");
  EXPECT_EQ(canonical("-9223372036854775809"), "-9.223372036854776e18");
  EXPECT_EQ(canonical("12345678901234567890123"), "1.2345678901234568e22");
  EXPECT_EQ(canonical("1e2"), "100.0");
  EXPECT_EQ(canonical("1.50"), "1.5");
  EXPECT_EQ(canonical("-0"), "-0.0");
  EXPECT_EQ(canonical("-0.0e5"), "-0.0");
  EXPECT_EQ(canonical("1e-7"), "1e-7");
  EXPECT_EQ(canonical("0.00001"), "0.00001");
  EXPECT_EQ(canonical("0.000001"), "1e-6");
  EXPECT_EQ(canonical("1E15"), "1000000000000000.0");
  EXPECT_EQ(canonical("1e16"), "1e16");
  EXPECT_EQ(canonical("123456789012345678.0"), "1.2345678901234568e17");
  EXPECT_EQ(canonical("5e-324"), "5e-324");
  EXPECT_EQ(canonical("1e-400"), "0.0");
  EXPECT_EQ(canonical("1.7976931348623157e308"), "1.7976931348623157e308");
  EXPECT_EQ(canonical("0.1"), "0.1");
  EXPECT_EQ(canonical("1" + std::string(400, '0') + "e-400"), "1.0");
}

TEST(Json, AnyDoubleReadsBackAndNoShorterTextWould) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; i++) {
    uint64_t bits = random();
    if (i % 3 == 0) bits &= ~uint64_t{0xFFFFFFFF}; // short ones too
    double value;
    memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    std::string text = number(value);
    ASSERT_EQ(strtod(text.c_str(), nullptr), value) << text;
    int digits = 0, zeros = 0;
    bool started = false;
    for (char c : text.substr(0, text.find('e'))) {
      if (c < '0' || c > '9') continue;
      started = started || c != '0';
      if (!started) continue;
      digits++;
      zeros = c == '0' ? zeros + 1 : 0;
    }
    digits -= zeros;
    if (digits > 1) {
      char shorter[64];
      snprintf(shorter, sizeof shorter, "%.*e", digits - 2, value);
      ASSERT_NE(strtod(shorter, nullptr), value) << text;
    }
  }
}

TEST(Json, DoesNotMindTheLocalesDecimalPoint) {
  const char *names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
  const char *found = nullptr;
  for (const char *name : names)
    if (!found) found = setlocale(LC_NUMERIC, name);
  if (!found) GTEST_SKIP() << "no locale with a decimal comma is installed";
  std::string a = canonical("1.5"), b = canonical("12345678901234567890123");
  setlocale(LC_NUMERIC, "C");
  EXPECT_EQ(a, "1.5");
  EXPECT_EQ(b, "1.2345678901234568e22");
}

TEST(Json, WritesStringsWithTheFewestEscapes) {
  EXPECT_EQ(canonical(R"("\u0000\u001f\b\f\n\r\t\"\\\/\u007f\u00e9\ud83d\ude00")"),
            "\"\\u0000\\u001f\\b\\f\\n\\r\\t\\\"\\\\/\x7F\xC3\xA9\xF0\x9F\x98\x80\"");
}

TEST(Json, SaysWhatIsWrongAndWhere) {
  const struct {
    const char *text, *why;
  } cases[] = {
      // Positions and texts of serde_json, whose messages users know from the original library.
      {"", "EOF while parsing a value at line 1 column 0"},
      {"tru", "EOF while parsing a value at line 1 column 3"},
      {"trux", "expected ident at line 1 column 4"},
      {"{", "EOF while parsing an object at line 1 column 1"},
      {"{\"a\"", "EOF while parsing an object at line 1 column 4"},
      {"{\"a\":1,", "EOF while parsing a value at line 1 column 7"},
      {"{\"a\":1,}", "trailing comma at line 1 column 8"},
      {"{a:1}", "key must be a string at line 1 column 2"},
      {"{\"a\" 1}", "expected `:` at line 1 column 6"},
      {"{\"a\":1 \"b\"}", "expected `,` or `}` at line 1 column 8"},
      {"[1", "EOF while parsing a list at line 1 column 2"},
      {"[1,]", "trailing comma at line 1 column 4"},
      {"[1 2]", "expected `,` or `]` at line 1 column 4"},
      {"01", "invalid number at line 1 column 2"},
      {"1.", "EOF while parsing a value at line 1 column 2"},
      {"1.e", "invalid number at line 1 column 3"},
      {"-", "EOF while parsing a value at line 1 column 1"},
      {"1e999", "number out of range at line 1 column 5"},
      {"\"abc", "EOF while parsing a string at line 1 column 4"},
      {"\"\\x\"", "invalid escape at line 1 column 3"},
      {"\"\\ud800\"", "unexpected end of hex escape at line 1 column 8"},
      {"\"\\ud800\\u0041\"", "lone leading surrogate in hex escape at line 1 column 13"},
      {"\"\\udc00\"", "lone leading surrogate in hex escape at line 1 column 7"},
      {"\"a\nb\"", "control character (\\u0000-\\u001F) found while parsing a string at line 2 column 0"},
      {"1 2", "trailing characters at line 1 column 3"},
      {"NaN", "expected value at line 1 column 1"},
      {"\n\n  x", "expected value at line 3 column 3"},
      {"+1", "expected value at line 1 column 1"},
      {"'a'", "expected value at line 1 column 1"},
      {"/* */1", "expected value at line 1 column 1"},
  };
  for (const auto &c : cases) EXPECT_EQ(canonical(c.text), std::string("error: ") + c.why) << c.text;
}

TEST(Json, NestsOnlySoDeep) {
  std::string deep = std::string(127, '[') + std::string(127, ']');
  EXPECT_EQ(canonical(deep), deep);
  EXPECT_EQ(canonical("[" + deep + "]"), "error: recursion limit exceeded at line 1 column 128");
  std::string objects;
  for (int i = 0; i < 127; i++) objects += "{\"a\":";
  EXPECT_EQ(canonical(objects + "1" + std::string(127, '}')), objects + "1" + std::string(127, '}'));
  EXPECT_EQ(canonical(std::string(1000000, '[')).substr(0, 7), "error: ");
}

TEST(Json, LeavesNothingInTheOutputAfterAnError) {
  nf_buffer out = {};
  nf_buffer_append_text(&out, "before");
  nf_error error = {};
  EXPECT_FALSE(nf_json_canonicalize(&out, view("{\"a\":[1,2,"), &error));
  EXPECT_EQ(take(&error), "EOF while parsing a value at line 1 column 10");
  EXPECT_EQ(take(&out), "before");
}

TEST(Json, ReadsBackWhatItWrites) {
  // Random documents: canonicalising twice changes nothing.
  std::mt19937 random(2);
  const char *pieces[] = {"{", "}", "[", "]", ",", ":", "\"a\"", "\"b\\n\"", "1", "-2.5e3", "true", "null", " ", "\"\\u00e9\""};
  int valid = 0;
  for (int i = 0; i < 200000; i++) {
    std::string text;
    for (unsigned n = random() % 8 + 1; n > 0; n--) text += pieces[random() % (sizeof pieces / sizeof *pieces)];
    std::string once = canonical(text);
    if (once.compare(0, 7, "error: ") == 0) continue;
    valid++;
    ASSERT_EQ(canonical(once), once) << text;
  }
  EXPECT_GT(valid, 1000);
}

// What an event may hold, and where readers of JSON differ; exporter/README.md has what others make of it.
TEST(Json, KeepsWhatOtherReadersLose) {
  auto text = [](const auto &literal) { return std::string(literal, sizeof literal - 1); };
  const std::string deep = std::string(127, '[') + std::string(127, ']'), deeper = "[" + deep + "]";
  const struct {
    const char *what;
    std::string text;
    const char *canonical; // null: an error
  } cases[] = {
      {"2^64-1", text("18446744073709551615"), "18446744073709551615"},
      {"2^63", text("9223372036854775808"), "9223372036854775808"},
      {"-2^63", text("-9223372036854775808"), "-9223372036854775808"},
      {"2^53+1", text("9007199254740993"), "9007199254740993"},
      {"2^64", text("18446744073709551616"), "1.8446744073709552e19"},
      {"23 digits", text("12345678901234567890123"), "1.2345678901234568e22"},
      {"1e2", text("1e2"), "100.0"},
      {"1.50", text("1.50"), "1.5"},
      {"0.1", text("0.1"), "0.1"},
      {"-0", text("-0"), "-0.0"},
      {"1e-400", text("1e-400"), "0.0"},
      {"1e999", text("1e999"), nullptr},
      {"01", text("01"), nullptr},
      {"sorted", text("{\"b\":1,\"a\":2,\"B\":3}"), "{\"B\":3,\"a\":2,\"b\":1}"},
      {"sorted by bytes", text("{\"\xF0\x9F\x98\x80\":1,\"\xEF\xBD\x9E\":2}"), "{\"\xEF\xBD\x9E\":2,\"\xF0\x9F\x98\x80\":1}"},
      {"last wins", text("{\"a\":1,\"a\":2}"), "{\"a\":2}"},
      {"NUL in text", text("\"a\\u0000b\""), "\"a\\u0000b\""},
      {"NUL in key", text("{\"a\\u0000b\":1}"), "{\"a\\u0000b\":1}"},
      {"keys equal up to NUL", text("{\"a\\u0000b\":1,\"a\\u0000c\":2}"), "{\"a\\u0000b\":1,\"a\\u0000c\":2}"},
      {"empty key", text("{\"\":1}"), "{\"\":1}"},
      {"escapes", text("\"\\b\\f\\n\\r\\t\\u001f\\u007f\\/\""), "\"\\b\\f\\n\\r\\t\\u001f\x7f/\""},
      {"non-ASCII raw", text("\"\\u00e9\\ud83d\\ude00\""), "\"\xC3\xA9\xF0\x9F\x98\x80\""},
      {"lone leading surrogate", text("\"\\ud800\""), nullptr},
      {"leading, then no trailing", text("\"\\ud800\\u0041\""), nullptr},
      {"lone trailing surrogate", text("\"\\udc00\""), nullptr},
      {"raw control", text("\"a\nb\""), nullptr},
      {"bad escape", text("\"\\x\""), nullptr},
      {"bare text", text("\"x\""), "\"x\""},
      {"bare null", text("null"), "null"},
      {"empty", text(""), nullptr},
      {"blank", text(" "), nullptr},
      {"half an object", text("{\"a\":1"), nullptr},
      {"trailing comma", text("[1,]"), nullptr},
      {"trailing bytes", text("1 2"), nullptr},
      {"raw NUL after", text("1\0"), nullptr},
      {"NaN", text("NaN"), nullptr},
      {"Infinity", text("Infinity"), nullptr},
      {"TRUE", text("TRUE"), nullptr},
      {"comment", text("/* */1"), nullptr},
      {"single quotes", text("'a'"), nullptr},
      {"half a number", text("1."), nullptr},
      {"minus", text("-"), nullptr},
      {"127 levels", deep, deep.c_str()},
      {"128 levels", deeper, nullptr},
  };
  EXPECT_EQ(std::size(cases), 44u);
  for (const auto &c : cases) {
    if (c.canonical)
      EXPECT_EQ(canonical(c.text), c.canonical) << c.what;
    else
      EXPECT_EQ(canonical(c.text).substr(0, 7), "error: ") << c.what;
  }
}

TEST(Json, QuotesAnyText) {
  nf_buffer out = {};
  nf_json_append_string(&out, view(std::string("a\"\\\n\0\xFFz", 7)));
  EXPECT_EQ(take(&out), "\"a\\\"\\\\\\n\\u0000\xEF\xBF\xBDz\"");
}

} // namespace
