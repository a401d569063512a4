#include "tests/conformance/generate.h"

#include <random>
#include <utility>

namespace conformance {

namespace {

const char *const kWords[] = {"",
                              "a",
                              "b",
                              "ab",
                              "ba",
                              "main",
                              "cpu-time",
                              "cpu-samples",
                              "wall-time",
                              "nanoseconds",
                              "count",
                              "bytes",
                              "thread id",
                              "app.rb",
                              "app/controllers/users_controller.rb",
                              "block in index",
                              "<main>",
                              "[native]",
                              "\xc3\xa9t\xc3\xa9",
                              "\xe6\x97\xa5\xe6\x9c\xac",
                              "\xf0\x9f\x92\x8e ruby",
                              "\xef\xbf\xbd",
                              "line\nbreak",
                              "tab\tquote\"back\\slash'",
                              "local root span id",
                              "trace endpoint",
                              "end_timestamp_ns",
                              "Local root span id",
                              "local root span id ",
                              "UsersController#index",
                              "GET /users",
                              "0",
                              "class"};

// Text that a debug form shows in some other way.
const char *const kOddities[] = {"\x01\x1f\x7f",
                                 "\xc2\x80\xc2\x9f",
                                 "\xc2\xad",
                                 "e\xcc\x81",
                                 "\xe2\x80\x8b",
                                 "\xe2\x80\xa8\xe2\x80\xa9",
                                 "\xee\x80\x80",
                                 "\xef\xbb\xbfx",
                                 "\xf4\x8f\xbf\xbf",
                                 "\xcc\x81",
                                 "\xd6\x90",
                                 "\xe0\xa4\x83",
                                 "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb",
                                 "'",
                                 "\r\n\v\f\b\a",
                                 "\xe3\x80\x80",
                                 "\xc2\xa0"};

// What the random sequences of one seed like to do; everything in percent.
struct Taste {
  int calls = 16;
  int types = 3;
  int texts = 12;     // size of the set of texts that are drawn from
  int fresh_text = 5; // a text outside that set
  int long_text = 1;  // ... of several kilobytes
  int bad_utf8 = 2;
  int oddity = 1;
  int slot = 10, pool = 50;
  int frames = 6, deep = 0;
  int labels = 3, many_labels = 0;
  int timestamp = 30;
  int extreme = 8; // numbers at the ends of their types
  int special_label = 15;
  int wrong_values = 2;
  int bad_handle = 1;
  int null_time = 15;
  int weight[9] = {3, 1, 60, 8, 4, 5, 5, 10, 3}; // in the order of Kind
};

class Generator {
public:
  explicit Generator(uint64_t seed) : random_(seed * 0x9E3779B97F4A7C15ull + 1) {
    Flavour(seed % 12);
    for (int i = 0; i < taste_.texts; i++) texts_.push_back(NewText());
  }

  Sequence Run() {
    Sequence sequence;
    sequence.push_back(New(Handle::kProfile0));
    bool two = Percent(15);
    if (two) sequence.push_back(New(Handle::kProfile1));
    int calls = 1 + static_cast<int>(Below(taste_.calls * 2));
    for (int i = 0; i < calls; i++) {
      Handle handle = two && Percent(50) ? Handle::kProfile1 : Handle::kProfile0;
      if (Percent(taste_.bad_handle)) handle = Percent(50) ? Handle::kNull : Handle::kInnerNull;
      sequence.push_back(Next(handle));
      // Most dropped profiles get a successor, or the rest of the sequence would be refused.
      if (sequence.back().kind == Kind::kDrop && Percent(80) && handle <= Handle::kProfile1)
        sequence.push_back(New(handle));
    }
    sequence.push_back(Serialize(Handle::kProfile0));
    if (two) sequence.push_back(Serialize(Handle::kProfile1));
    return sequence;
  }

private:
  void Flavour(uint64_t which) {
    Taste &t = taste_;
    switch (which) {
    case 0:
      break;
    case 1:
      t.timestamp = 0;
      t.calls = 40;
      t.texts = 5;
      break; // aggregation
    case 2:
      t.timestamp = 100;
      t.calls = 40;
      break; // timeline
    case 3:
      t.weight[5] = t.weight[6] = 30;
      t.special_label = 30;
      t.texts = 4;
      t.extreme = 15;
      break; // upscaling
    case 4:
      t.labels = 8;
      t.special_label = 40;
      t.texts = 6;
      t.weight[3] = 25;
      break; // labels and endpoints
    case 5:
      t.bad_utf8 = 25;
      t.fresh_text = 30;
      t.oddity = 10;
      break; // hostile text
    case 6:
      t.deep = 60;
      t.calls = 8;
      t.texts = 60;
      break; // deep stacks
    case 7:
      t.slot = 60;
      t.pool = 20;
      t.texts = 6;
      t.calls = 40;
      break; // addresses used again
    case 8:
      t.extreme = 60;
      t.types = 8;
      t.texts = 3;
      break; // ends of int64
    case 9:
      t.weight[7] = t.weight[8] = 25;
      t.weight[0] = 8;
      t.weight[1] = 8;
      t.bad_handle = 15;
      t.null_time = 40;
      break;
    case 10:
      t.texts = 200;
      t.fresh_text = 40;
      t.pool = 30;
      t.calls = 60;
      t.frames = 20;
      break; // much that is new
    default:
      t.many_labels = 4;
      t.long_text = 10;
      t.wrong_values = 10;
      t.oddity = 20;
      break;
    }
  }

  // Every machine must draw the same numbers in the same order: no two draws where C++ leaves the order open
  // (arguments, operands), and no distribution or shuffle of the standard library.
  uint64_t Below(uint64_t limit) { return limit ? random_() % limit : 0; }
  template <typename T> void Shuffle(std::vector<T> *list) {
    for (size_t left = list->size(); left > 1; left--) std::swap((*list)[left - 1], (*list)[Below(left)]);
  }
  bool Percent(int percent) { return Below(100) < static_cast<uint64_t>(percent); }

  // ---- Numbers ----
  uint64_t Unsigned() {
    if (Percent(taste_.extreme)) {
      static const uint64_t ends[] = {UINT64_MAX, UINT64_MAX - 1,
                                      1ull << 63, (1ull << 63) - 1,
                                      1ull << 32, (1ull << 32) - 1,
                                      1ull << 31, 127,
                                      128,        16383,
                                      16384};
      return ends[Below(sizeof ends / sizeof *ends)];
    }
    if (Percent(30)) return 0;
    return Below(Percent(50) ? 10 : 1ull << (1 + Below(62)));
  }
  int64_t Signed() {
    if (Percent(taste_.extreme)) {
      static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX - 1,
                                     -1,        INT32_MIN,     INT32_MAX};
      return ends[Below(sizeof ends / sizeof *ends)];
    }
    int64_t value = static_cast<int64_t>(Unsigned());
    return Percent(10) && value != INT64_MIN ? -value : value;
  }

  std::optional<Timespec> Time() {
    if (Percent(taste_.null_time)) return std::nullopt;
    static const int64_t seconds[] = {0,
                                      1,
                                      -1,
                                      1700000000,
                                      1700000060,
                                      9223372036,
                                      9223372037,
                                      -62135596800,
                                      253402300800,
                                      8000000000000,
                                      -8000000000000};
    static const uint32_t nanos[] = {0, 1, 999999999, 500000000};
    return Timespec{seconds[Below(sizeof seconds / sizeof *seconds)], nanos[Below(4)]};
  }

  // ---- Texts ----
  std::string NewBytes() {
    if (Percent(taste_.oddity)) return kOddities[Below(sizeof kOddities / sizeof *kOddities)];
    if (Percent(taste_.long_text)) {
      const char letter = static_cast<char>('a' + Below(26));
      return std::string(1 + Below(9000), letter);
    }
    std::string word = kWords[Below(sizeof kWords / sizeof *kWords)];
    switch (Below(6)) {
    case 0:
      return word + std::to_string(Below(1000));
    case 1:
      return word + std::string(1, '\0') + std::to_string(Below(3)); // a NUL inside
    case 2: {                                                        // equal length, one byte apart
      std::string text(Below(40), 'x');
      text += static_cast<char>('0' + Below(3));
      text.append(Below(40), 'y');
      return text;
    }
    default:
      return word;
    }
  }
  Text NewText() {
    Text text;
    text.bytes = NewBytes();
    if (Percent(taste_.bad_utf8)) {
      const std::string &fault = Utf8Faults()[Below(Utf8Faults().size())];
      text.bytes.insert(Below(text.bytes.size() + 1), fault);
    }
    return text;
  }
  Text AnyText() {
    Text text = Percent(taste_.fresh_text) ? NewText() : texts_[Below(texts_.size())];
    if (text.bytes.empty() && Percent(50))
      text.place = Place::kNull;
    else if (Percent(taste_.slot))
      text.place = Percent(50) ? Place::kSlot0 : Place::kSlot1;
    else if (Percent(taste_.pool))
      text.place = Place::kPool;
    return text;
  }
  Text Maybe(int percent) { return Percent(percent) ? AnyText() : Text{"", Place::kNull}; }

  // ---- Parts ----
  Location AnyLocation() {
    if (!locations_.empty() && Percent(60)) {
      Location location = locations_[Below(locations_.size())];
      // Almost the same: every single field must count.
      switch (Below(40)) {
      case 0:
        location.mapping.start = Unsigned();
        break;
      case 1:
        location.mapping.limit = Unsigned();
        break;
      case 2:
        location.mapping.offset = Unsigned();
        break;
      case 3:
        location.mapping.filename = AnyText();
        break;
      case 4:
        location.mapping.build_id = AnyText();
        break;
      case 5:
        location.function.name = AnyText();
        break;
      case 6:
        location.function.system_name = AnyText();
        break;
      case 7:
        location.function.filename = AnyText();
        break;
      case 8:
        location.function.start_line = Signed();
        break;
      case 9:
        location.address = Unsigned();
        break;
      case 10:
        location.line = Signed();
        break;
      }
      return location;
    }
    Location location;
    if (Percent(20)) location.mapping = {Unsigned(), Unsigned(), Unsigned(), Maybe(60), Maybe(60)};
    location.function = {AnyText(), Maybe(15), AnyText(), Percent(20) ? Signed() : 0};
    location.address = Percent(20) ? Unsigned() : 0;
    location.line = Signed();
    locations_.push_back(location);
    return location;
  }
  Label AnyLabel() {
    Label label;
    if (Percent(taste_.special_label)) {
      static const char *const keys[] = {"local root span id", "trace endpoint", "end_timestamp_ns"};
      uint64_t which = Below(20);
      label.key.bytes = keys[which < 12 ? 0 : which < 18 ? 1 : 2];
      if (which < 11) {
        label.num = Span();
        label.num_unit = Maybe(10);
        return label;
      }
    } else {
      label.key = AnyText();
    }
    if (Percent(50)) label.str = AnyText();
    if (Percent(60)) label.num = Signed();
    label.num_unit = Maybe(20);
    return label;
  }
  // Few different ones, some of which differ in their upper half only.
  int64_t Span() {
    if (Percent(10)) return Signed();
    const uint64_t lower = 1 + Below(3);
    return static_cast<int64_t>(lower + (Percent(30) ? (1 + Below(2)) << 32 : 0));
  }
  int64_t Value() { return Percent(25) ? 0 : Signed(); }

  // ---- Calls ----
  Call New(Handle handle) {
    Call call;
    call.kind = Kind::kNew;
    call.handle = handle;
    size_t types = Percent(3) ? 0 : 1 + Below(taste_.types * 2);
    if (Percent(1)) types = 32;
    for (size_t i = 0; i < types; i++) call.types.push_back({AnyText(), AnyText()});
    if (Percent(50)) {
      call.period_type = ValueType{AnyText(), AnyText()};
      // The original takes a period whose type is {NULL, 0} for none.
      if (call.period_type->type.place == Place::kNull) call.period_type->type.place = Place::kOwn;
      call.period = Signed();
    }
    call.start = Time();
    types_[static_cast<int>(handle)] = types;
    return call;
  }
  size_t Types(Handle handle) { return handle == Handle::kProfile1 ? types_[1] : types_[0]; }

  Call Add(Handle handle) {
    Call call;
    call.handle = handle;
    size_t frames = Below(taste_.frames * 2);
    if (Percent(taste_.deep)) frames = Percent(10) ? 400 : Below(400);
    for (size_t i = 0; i < frames; i++) call.locations.push_back(AnyLocation());
    if (!stacks_.empty() && Percent(40))
      call.locations = stacks_[Below(stacks_.size())];
    else if (stacks_.size() < 20)
      stacks_.push_back(call.locations);
    size_t values = Types(handle);
    if (Percent(taste_.wrong_values)) values = Below(values + 3);
    for (size_t i = 0; i < values; i++) call.values.push_back(Value());
    size_t labels = Below(taste_.labels + 1);
    if (Percent(taste_.many_labels)) labels = Below(300);
    for (size_t i = 0; i < labels; i++) {
      Label label = AnyLabel();
      bool seen = false;
      for (const Label &other : call.labels) seen = seen || other.key.bytes == label.key.bytes;
      if (seen && labels > 8) label.key.bytes += std::to_string(i);
      if (!seen || labels > 8 || Percent(10)) call.labels.push_back(label);
    }
    if (!labels_.empty() && Percent(40))
      call.labels = labels_[Below(labels_.size())];
    else if (labels_.size() < 20)
      labels_.push_back(call.labels);
    if (Percent(15)) Shuffle(&call.labels);
    if (Percent(taste_.timestamp))
      call.timestamp = Percent(50) ? 1700000000000000000 + static_cast<int64_t>(Below(1000)) : Signed();
    return call;
  }

  void Rule(Call *call) {
    size_t types = Types(call->handle);
    for (size_t i = 0; i < types && call->offsets.size() < 4; i++)
      if (Percent(40)) call->offsets.push_back(i);
    if (Percent(5)) call->offsets.push_back(types + Below(3));
    if (Percent(20)) Shuffle(&call->offsets);
    if (Percent(60)) {
      call->label_name = AnyText();
      call->label_value = Percent(70) ? AnyText() : Text{"", Place::kNull};
      if (Percent(taste_.special_label)) call->label_name.bytes = "trace endpoint";
      if (!labels_.empty() && Percent(50)) {
        const std::vector<Label> &labels = labels_[Below(labels_.size())];
        if (!labels.empty()) {
          const Label &label = labels[Below(labels.size())];
          call->label_name.bytes = label.key.bytes;
          call->label_value.bytes = label.str.bytes;
          if (!call->label_name.bytes.empty() && call->label_name.place == Place::kNull)
            call->label_name.place = Place::kOwn;
          if (!call->label_value.bytes.empty() && call->label_value.place == Place::kNull)
            call->label_value.place = Place::kOwn;
        }
      }
    }
  }

  Call Serialize(Handle handle) {
    Call call;
    call.kind = Kind::kSerialize;
    call.handle = handle;
    call.end = Time();
    call.start = Time();
    if (Percent(60)) call.duration = Signed();
    return call;
  }

  Call Next(Handle handle) {
    int total = 0, pick;
    for (int weight : taste_.weight) total += weight;
    pick = static_cast<int>(Below(static_cast<uint64_t>(total)));
    int kind = 0;
    while (pick >= taste_.weight[kind]) pick -= taste_.weight[kind++];
    Call call;
    call.kind = static_cast<Kind>(kind);
    call.handle = handle;
    switch (call.kind) {
    case Kind::kNew:
      return New(handle == Handle::kProfile1 ? handle : Handle::kProfile0);
    case Kind::kDrop:
      break;
    case Kind::kAdd:
      return Add(handle);
    case Kind::kSetEndpoint:
      call.root_span = static_cast<uint64_t>(Span());
      call.endpoint = AnyText();
      break;
    case Kind::kEndpointCount:
      call.endpoint = AnyText();
      call.count = Signed();
      break;
    case Kind::kPoisson:
      Rule(&call);
      call.sum_offset = Below(Types(handle) + (Percent(5) ? 3 : 0));
      call.count_offset = Below(Types(handle) + (Percent(5) ? 3 : 0));
      call.distance = Percent(5) ? 0 : 1 + Unsigned();
      break;
    case Kind::kProportional:
      Rule(&call);
      call.sampled = Percent(5) ? 0 : 1 + Below(100);
      call.real = Percent(5) ? 0 : Percent(80) ? 1 + Below(100) : Unsigned();
      break;
    case Kind::kSerialize:
      return Serialize(handle);
    case Kind::kReset:
      call.start = Time();
      break;
    }
    return call;
  }

  std::mt19937_64 random_;
  Taste taste_;
  std::vector<Text> texts_;
  std::vector<Location> locations_;
  std::vector<std::vector<Location>> stacks_;
  std::vector<std::vector<Label>> labels_;
  size_t types_[2] = {0, 0};
};

} // namespace

namespace {

// Keeps away from the known difference (differences.h) of rules and labels without a key.
void AvoidEmptyKeys(Sequence *sequence) {
  bool by_value = false;
  for (const Call &call : *sequence)
    by_value |= (call.kind == Kind::kPoisson || call.kind == Kind::kProportional) &&
                call.label_name.bytes.empty() && call.label_value.bytes.empty();
  if (!by_value) return;
  for (Call &call : *sequence)
    for (Label &label : call.labels)
      if (label.key.bytes.empty() && label.str.bytes.empty()) label.key = {"no key", Place::kOwn};
}

} // namespace

Sequence Generate(uint64_t seed) {
  Sequence sequence = Generator(seed).Run();
  AvoidEmptyKeys(&sequence);
  return sequence;
}

const std::vector<std::string> &Utf8Faults() {
  static const std::vector<std::string> faults = [] {
    std::vector<std::string> list;
    // Bytes that never begin a character.
    for (int byte : {0x80, 0x8f, 0x90, 0xa0, 0xbf, 0xc0, 0xc1, 0xf5, 0xf8, 0xfc, 0xfe, 0xff})
      list.push_back(std::string(1, static_cast<char>(byte)));
    // Each lead byte cut short after each number of right bytes, and followed by what cannot follow.
    for (const char *whole :
         {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xe1\x80\x80", "\xed\x9f\xbf", "\xee\x80\x80",
          "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf1\x80\x80\x80", "\xf3\xbf\xbf\xbf", "\xf4\x8f\xbf\xbf"}) {
      std::string bytes = whole;
      for (size_t cut = 1; cut < bytes.size(); cut++) {
        list.push_back(bytes.substr(0, cut));
        for (const char *next : {"A", "\xc3\xa9", "\xff", "\xf0\x9f\x92\x8e"})
          list.push_back(bytes.substr(0, cut) + next);
      }
    }
    // Overlong forms, surrogates, beyond U+10FFFF.
    for (const char *bad :
         {"\xc0\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xf0\x80\x80\x80",
          "\xf0\x8f\xbf\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xed\xa0\xbd\xed\xb2\xa9", "\xf4\x90\x80\x80",
          "\xf5\x80\x80\x80", "\xf7\xbf\xbf\xbf", "\xf8\x88\x80\x80\x80"})
      list.push_back(bad);
    return list;
  }();
  return faults;
}

} // namespace conformance
