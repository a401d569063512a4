// Sequences that go through a whole kind of input, one after the other.
#include <cstring>
#include <functional>

#include "tests/conformance/generate.h"

namespace conformance {

namespace {

constexpr Timespec kStart{1700000000, 0}, kEnd{1700000060, 5};

Text T(const std::string &bytes, Place place = Place::kOwn) { return {bytes, place}; }

Call New(size_t types) {
  Call call;
  call.kind = Kind::kNew;
  for (size_t i = 0; i < types; i++) call.types.push_back({T("type" + std::to_string(i)), T("unit")});
  call.start = kStart;
  return call;
}

Call Serialize() {
  Call call;
  call.kind = Kind::kSerialize;
  call.end = kEnd;
  call.start = kEnd;
  return call;
}

Location Frame(const std::string &name, int64_t line = 1) {
  Location location;
  location.function.name = T(name, Place::kPool);
  location.function.filename = T("app.rb", Place::kPool);
  location.line = line;
  return location;
}

Label TextLabel(const std::string &key, const std::string &str) {
  return {T(key), T(str), 0, T("", Place::kNull)};
}
Label NumberLabel(const std::string &key, int64_t num) {
  return {T(key), T("", Place::kNull), num, T("", Place::kNull)};
}

Call Add(std::vector<int64_t> values, int64_t timestamp = 0) {
  Call call;
  call.locations = {Frame("leaf"), Frame("main", 7)};
  call.values = std::move(values);
  call.timestamp = timestamp;
  return call;
}

// Every parameter of Profile_add that is a text.
struct Field {
  const char *name;
  std::function<Text *(Call *)> of;
};

const std::vector<Field> &AddFields() {
  static const std::vector<Field> fields = {
      {"mapping.filename", [](Call *c) { return &c->locations[1].mapping.filename; }},
      {"mapping.build_id", [](Call *c) { return &c->locations[1].mapping.build_id; }},
      {"function.name", [](Call *c) { return &c->locations[0].function.name; }},
      {"function.system_name", [](Call *c) { return &c->locations[1].function.system_name; }},
      {"function.filename", [](Call *c) { return &c->locations[1].function.filename; }},
      {"label.key", [](Call *c) { return &c->labels[1].key; }},
      {"label.str", [](Call *c) { return &c->labels[0].str; }},
      {"label.num_unit", [](Call *c) { return &c->labels[1].num_unit; }},
  };
  return fields;
}

Call AddWithLabels() {
  Call call = Add({1});
  call.labels = {TextLabel("first", "text"), NumberLabel("second", 5)};
  return call;
}

const int64_t kEnds[] = {INT64_MIN, INT64_MIN + 1, INT64_MIN / 2, INT32_MIN,     -2,       -1, 0, 1, 2, 127,
                         128,       INT32_MAX,     INT64_MAX / 2, INT64_MAX - 1, INT64_MAX};

class List {
public:
  Sequence &Begin(const std::string &name, size_t types = 1) {
    list_.push_back({name, {New(types)}});
    return list_.back().sequence;
  }
  std::vector<Directed> Take() { return std::move(list_); }

private:
  std::vector<Directed> list_;
};

void Utf8InAdd(List *list) {
  std::vector<size_t> positions;
  for (size_t i = 0; i <= 20; i++) positions.push_back(i);
  for (size_t i : {31, 32, 33, 63, 64, 65, 4095, 4096}) positions.push_back(i);
  for (const std::string &fault : Utf8Faults()) {
    for (const Field &field : AddFields()) {
      Sequence &sequence = list->Begin("UTF-8 fault " + Quote(fault) + " in " + field.name);
      for (size_t position : positions) {
        for (const char *after : {"", "tail of sixteen b", "\xc3\xa9"}) {
          Call call = AddWithLabels();
          // Behind multi-byte characters too: they must not shift the index.
          std::string before(position, 'x');
          if (position >= 3 && position % 2) memcpy(&before[position / 2 - 1], "\xc3\xa9", 2);
          *field.of(&call) = T(before + fault + after, position % 3 ? Place::kOwn : Place::kSlot0);
          sequence.push_back(call);
        }
      }
      sequence.push_back(AddWithLabels()); // nothing of the refused ones may be left
      sequence.push_back(Serialize());
    }
  }
}

void TwoFaultsInAdd(List *list) {
  // Which of two faults is named?
  for (const Field &first : AddFields()) {
    Sequence &sequence = list->Begin(std::string("two faults, one in ") + first.name);
    for (const Field &second : AddFields()) {
      Call call = AddWithLabels();
      call.values = {1, 2}; // and the number of values is wrong as well
      call.labels.push_back(call.labels[0]);
      *second.of(&call) = T("22\xff");
      *first.of(&call) = T("1\xff");
      sequence.push_back(call);
    }
    sequence.push_back(Serialize());
  }
}

void Utf8InOthers(List *list) {
  for (const std::string &fault : Utf8Faults()) {
    Sequence &sequence = list->Begin("UTF-8 fault " + Quote(fault) + " where it is replaced");
    for (size_t position : {0, 1, 7, 15, 16, 17}) {
      std::string text = std::string(position, 'x') + fault;
      for (const std::string &bytes : {text, text + "y", text + fault + fault}) {
        Call create = New(1);
        create.types.push_back({T(bytes), T("unit")});
        create.types.push_back({T("type"), T(bytes)});
        create.period_type = ValueType{T(bytes), T(bytes)};
        create.period = 3;
        sequence.push_back(create);

        Call endpoint;
        endpoint.kind = Kind::kSetEndpoint;
        endpoint.root_span = 1;
        endpoint.endpoint = T(bytes);
        sequence.push_back(endpoint);

        Call count = endpoint;
        count.kind = Kind::kEndpointCount;
        count.count = 1;
        sequence.push_back(count);

        Call rule;
        rule.kind = Kind::kProportional;
        rule.offsets = {0};
        rule.label_name = T(bytes);
        rule.label_value = T(bytes);
        rule.sampled = 1;
        rule.real = 3;
        sequence.push_back(rule);
        sequence.push_back(rule); // the refusal names the texts

        Call add = Add({1, 2, 3});
        add.labels = {NumberLabel("local root span id", 1)};
        sequence.push_back(add);
        sequence.push_back(Serialize());
      }
    }
  }
}

void Huge(List *list) {
  for (const Field &field : AddFields()) {
    Sequence &sequence = list->Begin(std::string("1 MiB in ") + field.name);
    for (const std::string &bytes :
         {std::string(1 << 20, 'h'), std::string(1 << 20, 'h') + "\xff", std::string(70000, '\0')}) {
      Call call = AddWithLabels();
      *field.of(&call) = T(bytes);
      sequence.push_back(call);
      sequence.push_back(call);
    }
    sequence.push_back(Serialize());
  }
  for (size_t frames : {399, 400, 401, 5000}) {
    Sequence &sequence = list->Begin(std::to_string(frames) + " frames");
    for (int round = 0; round < 3; round++) {
      Call call = Add({1}, round == 2 ? 5 : 0);
      call.locations.clear();
      for (size_t i = 0; i < frames; i++)
        call.locations.push_back(Frame("f" + std::to_string(i % 450), static_cast<int64_t>(i)));
      sequence.push_back(call);
      call.locations.back().line++; // one different at the root
      sequence.push_back(call);
      call.locations.front().line++; // and at the leaf
      sequence.push_back(call);
      call.locations.pop_back();
      sequence.push_back(call);
    }
    sequence.push_back(Serialize());
  }
  {
    Sequence &sequence = list->Begin("the same frame 400 times");
    Call call = Add({1});
    call.locations.assign(400, Frame("again"));
    sequence.insert(sequence.end(), {call, call});
    call.locations.pop_back();
    sequence.insert(sequence.end(), {call, Serialize()});
  }
  for (size_t labels : {255, 256, 4096, 1 << 16}) {
    Sequence &sequence = list->Begin(std::to_string(labels) + " labels on a sample");
    Call call = Add({1});
    for (size_t i = 0; i < labels; i++)
      call.labels.push_back(i % 2 ? TextLabel("key" + std::to_string(i), "v" + std::to_string(i % 7))
                                  : NumberLabel("key" + std::to_string(i), static_cast<int64_t>(i)));
    sequence.push_back(call);
    std::vector<Label> reversed(call.labels.rbegin(), call.labels.rend());
    call.labels = reversed;
    sequence.push_back(call); // the same set
    call.timestamp = 9;
    sequence.push_back(call);
    call.labels.push_back(call.labels[labels / 2]);
    sequence.push_back(call); // refused
    sequence.push_back(Serialize());
  }
  {
    Sequence &sequence = list->Begin("2^16 different label values");
    for (size_t i = 0; i < 1 << 16; i++) {
      Call call = Add({1});
      call.labels = {NumberLabel("id", static_cast<int64_t>(i))};
      sequence.push_back(call);
    }
    sequence.push_back(Serialize());
  }
  {
    Sequence &sequence = list->Begin("20000 different functions, twice");
    for (int round = 0; round < 2; round++) {
      for (size_t i = 0; i < 20000; i++) {
        Call call = Add({1});
        call.locations[0] = Frame("function " + std::to_string(i), static_cast<int64_t>(i));
        sequence.push_back(call);
      }
    }
    sequence.push_back(Serialize());
  }
  for (size_t types : {0, 1, 31, 32, 33, 64, 65, 300}) {
    Sequence &sequence = list->Begin(std::to_string(types) + " sample types", types);
    std::vector<int64_t> values(types, 0);
    for (size_t i = 0; i < types; i += 3) values[i] = static_cast<int64_t>(i) - 20;
    for (int64_t timestamp : {0, 0, 1, -1}) sequence.push_back(Add(values, timestamp));
    for (size_t wrong : {types + 1, types ? types - 1 : 5, size_t{0}})
      sequence.push_back(Add(std::vector<int64_t>(wrong, 1)));
    sequence.push_back(Serialize());
  }
}

void Numbers(List *list) {
  {
    Sequence &sequence = list->Begin("sums over the ends of int64", 2);
    for (int64_t a : kEnds) {
      for (int64_t b : kEnds) {
        Call call = Add({a, b});
        call.labels = {NumberLabel("pair", a), NumberLabel("other", b)};
        sequence.push_back(call);
        call.values = {b, a};
        sequence.push_back(call);
        call.timestamp = a;
        sequence.push_back(call);
      }
    }
    sequence.push_back(Serialize());
  }
  {
    Sequence &sequence = list->Begin("numbers of locations at their ends");
    for (int64_t a : kEnds) {
      for (int which = 0; which < 6; which++) {
        Call call = Add({1});
        Location &l = call.locations[0];
        uint64_t u = static_cast<uint64_t>(a);
        switch (which) {
        case 0:
          l.mapping.start = u;
          break;
        case 1:
          l.mapping.limit = u;
          break;
        case 2:
          l.mapping.offset = u;
          break;
        case 3:
          l.function.start_line = a;
          break;
        case 4:
          l.address = u;
          break;
        default:
          l.line = a;
          break;
        }
        sequence.push_back(call);
      }
    }
    sequence.push_back(Serialize());
  }
  {
    Sequence &sequence = list->Begin("root spans at the ends of int64");
    for (int64_t a : kEnds) {
      Call endpoint;
      endpoint.kind = Kind::kSetEndpoint;
      endpoint.root_span = static_cast<uint64_t>(a);
      endpoint.endpoint = T("endpoint " + std::to_string(a));
      Call add = Add({1});
      add.labels = {NumberLabel("local root span id", a)};
      sequence.push_back(add);
      sequence.push_back(endpoint);
      add.timestamp = 4;
      sequence.push_back(add);
    }
    sequence.push_back(Serialize());
  }
  Sequence &sequence = list->Begin("times and durations at their ends");
  for (int64_t seconds : {int64_t{-8000000000000}, int64_t{-62135596800}, int64_t{-1}, int64_t{0},
                          int64_t{9223372036}, int64_t{9223372037}, int64_t{8000000000000}}) {
    for (uint32_t nanos : {0u, 1u, 854775806u, 854775807u, 854775808u, 999999999u}) {
      for (int64_t duration : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{1}, INT64_MAX, int64_t{-2}}) {
        Call call = Serialize();
        call.end = Timespec{seconds, nanos};
        if (duration != -2) call.duration = duration;
        call.start = Timespec{seconds, 999999999 - nanos};
        sequence.push_back(call);
      }
    }
  }
}

void Long(List *list) {
  {
    Sequence &sequence = list->Begin("40000 samples of a timeline", 3);
    uint64_t random = 1;
    auto next = [&](uint64_t limit) {
      return (random = random * 6364136223846793005ull + 1442695040888963407ull) % limit;
    };
    int64_t now = 1700000000000000000;
    for (int i = 0; i < 40000; i++) {
      now += static_cast<int64_t>(next(1 << 24)) - 1000; // mostly, but not always, onwards
      // One draw after the other: C++ leaves the order of operands and arguments to each machine.
      const auto any = static_cast<int64_t>(next(1ull << next(40))), one = static_cast<int64_t>(next(2));
      const auto times = static_cast<int64_t>(next(3)),
                 negative = times * -static_cast<int64_t>(next(1 << 20));
      Call call = Add({any, one, negative}, now);
      const std::string function = "f" + std::to_string(next(300));
      call.locations[0] = Frame(function, static_cast<int64_t>(next(5)));
      call.labels = {NumberLabel("thread id", static_cast<int64_t>(next(8))),
                     NumberLabel("span id", static_cast<int64_t>(next(20000)))};
      sequence.push_back(call);
      if (i % 10000 == 9999) sequence.push_back(Add({1, 2, 3})); // aggregated ones in between
    }
    sequence.push_back(Serialize());
    sequence.push_back(Add({1, 2, 3}, 5));
    sequence.push_back(Serialize());
  }
  {
    Sequence &sequence = list->Begin("sums that grow through every width", 9);
    for (int bit = 0; bit < 130; bit++) {
      std::vector<int64_t> values(9, 0);
      for (int column = 0; column < 9; column++)
        values[static_cast<size_t>(column)] =
            bit % 9 == column || column == 4
                ? static_cast<int64_t>(uint64_t{column % 2 ? UINT64_MAX : 1} << bit % 64)
                : 0;
      sequence.push_back(Add(values));
      Call other = Add(values);
      other.labels = {NumberLabel("bit", bit % 5)};
      sequence.push_back(other);
      other.timestamp = bit + 1;
      sequence.push_back(other);
      if (bit % 13 == 12) {
        for (int64_t &value : values) value = static_cast<int64_t>(-static_cast<uint64_t>(value));
        sequence.push_back(Add(values)); // back to small ones
      }
    }
    sequence.push_back(Serialize());
  }
  {
    Sequence &sequence = list->Begin("values of every width in every column, twice", 3);
    const int64_t widths[] = {0,          1,         0x7f,      0x7fff,    1 << 20,
                              0x7fffffff, 1ll << 36, 1ll << 44, 1ll << 52, INT64_MIN};
    for (int round = 0; round < 2; round++)
      for (int64_t a : widths)
        for (int64_t b : widths)
          for (int64_t c : widths) sequence.push_back(Add({a, b, c}, 5 + round));
    sequence.push_back(Serialize());
  }
  {
    Sequence &sequence = list->Begin("stacks that share their leaves or roots");
    for (size_t depth = 1; depth <= 60; depth++) {
      for (bool from_root : {false, true}) {
        Call call = Add({1});
        call.locations.clear();
        for (size_t i = 0; i < depth; i++) {
          Location frame = Frame("f" + std::to_string(i));
          if (from_root)
            call.locations.insert(call.locations.begin(), frame);
          else
            call.locations.push_back(frame);
        }
        sequence.push_back(call);
        sequence.push_back(call);
      }
    }
    sequence.push_back(Serialize());
  }
  Sequence &sequence = list->Begin("3000 profiles by one handle");
  for (int i = 0; i < 1000; i++) {
    Call add = AddWithLabels();
    add.locations[0].line = i;
    add.timestamp = i % 3 ? i : 0;
    Call reset;
    reset.kind = Kind::kReset;
    reset.start = kStart;
    sequence.insert(sequence.end(), {add, Serialize(), add, reset, add, add, Serialize()});
  }
}

void Debug(List *list) {
  Sequence &sequence = list->Begin("how errors show labels");
  auto both = [&](const std::string &bytes) {
    Call call = Add({1});
    call.labels = {TextLabel(bytes, bytes), TextLabel(bytes, "")};
    sequence.push_back(call);
    call.labels = {{T("local root span id"), T(bytes), 5, T(bytes)}};
    sequence.push_back(call);
    call.labels = {{T("end_timestamp_ns"), T("", Place::kNull), INT64_MIN, T(bytes)}};
    sequence.push_back(call);
  };
  for (int byte = 0; byte < 128; byte++) {
    both(std::string(1, static_cast<char>(byte)));
    both("a" + std::string(2, static_cast<char>(byte)) + "z");
  }
  for (const char *text :
       {"\xc3\xa9", "\xe6\x97\xa5\xe6\x9c\xac", "\xf0\x9f\x92\x8e", "\xef\xbf\xbd", "\\u{1}", "\"\"", ""})
    both(text);
  sequence.push_back(Serialize());

  Sequence &order = list->Begin("which label is refused");
  const Label labels[] = {TextLabel("a", "1"),
                          TextLabel("a", "2"),
                          NumberLabel("a", 3),
                          TextLabel("local root span id", "text"),
                          NumberLabel("local root span id", 0),
                          NumberLabel("local root span id", 1),
                          NumberLabel("end_timestamp_ns", 5),
                          TextLabel("end_timestamp_ns", "t"),
                          TextLabel("trace endpoint", "e"),
                          NumberLabel("trace endpoint", 1),
                          NumberLabel("", 0),
                          TextLabel("", "empty key")};
  for (const Label &a : labels) {
    for (const Label &b : labels) {
      for (const Label &c : labels) {
        Call call = Add({1});
        call.labels = {a, b, c};
        order.push_back(call);
      }
    }
  }
  order.push_back(Serialize());
}

void Addresses(List *list) {
  for (const Field &field : AddFields()) {
    Sequence &sequence = list->Begin(std::string("the same address with other bytes: ") + field.name);
    for (const char *bytes :
         {"aaaa", "aaab", "aaaa", "baaa", "abaa", "aaaa", "aaa", "aaaaa", "", "aaaa", "aaa\xff", "aaaa"}) {
      for (int64_t timestamp : {0, 3}) {
        Call call = AddWithLabels();
        call.timestamp = timestamp;
        *field.of(&call) = T(bytes, Place::kSlot0);
        sequence.push_back(call);
      }
    }
    sequence.push_back(Serialize());
    Sequence &copies = list->Begin(std::string("the same bytes at other addresses: ") + field.name);
    for (Place place : {Place::kOwn, Place::kPool, Place::kSlot0, Place::kSlot1, Place::kOwn}) {
      Call call = AddWithLabels();
      *field.of(&call) = T("the same text", place);
      copies.push_back(call);
    }
    copies.push_back(Serialize());
  }
}

void Handles(List *list) {
  Sequence &sequence = list->Begin("null handles");
  for (Handle handle : {Handle::kNull, Handle::kInnerNull, Handle::kProfile1}) {
    for (Kind kind : {Kind::kAdd, Kind::kSetEndpoint, Kind::kEndpointCount, Kind::kPoisson,
                      Kind::kProportional, Kind::kSerialize, Kind::kReset, Kind::kDrop}) {
      Call call = AddWithLabels();
      call.kind = kind;
      call.handle = handle;
      call.distance = call.sampled = call.real = 1;
      call.end = call.start = kEnd;
      sequence.push_back(call);
    }
  }
  Sequence &dropped = list->Begin("a dropped handle");
  Call drop;
  drop.kind = Kind::kDrop;
  dropped.insert(dropped.end(), {AddWithLabels(), drop, AddWithLabels(), drop, Serialize(), New(1),
                                 AddWithLabels(), Serialize()});
}

void Rules(List *list) {
  auto proportional = [](std::vector<uintptr_t> offsets, const std::string &name, const std::string &value,
                         uint64_t sampled, uint64_t real) {
    Call call;
    call.kind = Kind::kProportional;
    call.offsets = std::move(offsets);
    call.label_name = T(name);
    call.label_value = T(value);
    call.sampled = sampled;
    call.real = real;
    return call;
  };
  auto poisson = [](std::vector<uintptr_t> offsets, const std::string &name, const std::string &value,
                    uintptr_t sum, uintptr_t count, uint64_t distance) {
    Call call;
    call.kind = Kind::kPoisson;
    call.offsets = std::move(offsets);
    call.label_name = T(name);
    call.label_value = T(value);
    call.sum_offset = sum;
    call.count_offset = count;
    call.distance = distance;
    return call;
  };

  Sequence &poissons = list->Begin("Poisson scales", 3);
  for (uint64_t distance : {uint64_t{1}, uint64_t{10}, uint64_t{524288}, uint64_t{1} << 62, UINT64_MAX}) {
    for (int64_t sum : kEnds) {
      for (int64_t count : kEnds) {
        poissons.push_back(poisson({0, 1, 2}, "", "", 0, 1, distance));
        poissons.push_back(Add({sum, count, 7}));
        poissons.push_back(Serialize());
      }
    }
  }
  Sequence &proportions = list->Begin("proportional scales", 2);
  for (uint64_t sampled : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{10}, UINT64_MAX}) {
    for (uint64_t real :
         {uint64_t{1}, uint64_t{2}, uint64_t{5}, uint64_t{7}, uint64_t{1} << 63, UINT64_MAX}) {
      proportions.push_back(proportional({1}, "", "", sampled, real));
      for (int64_t value : kEnds) proportions.push_back(Add({value, value}, value));
      for (int64_t value : {3, 5, -3, -5, 9}) proportions.push_back(Add({1, value}, 1)); // halves
      proportions.push_back(Serialize());
    }
  }
  Sequence &refusals = list->Begin("refused rules", 4);
  const std::vector<std::vector<uintptr_t>> offsets = {{},  {0},    {1, 0},       {2},          {3},
                                                       {4}, {0, 9}, {0, 1, 2, 3}, {UINTPTR_MAX}};
  const std::pair<const char *, const char *> keys[] = {{"", ""},   {"a", ""},  {"", "v"},
                                                        {"a", "v"}, {"a", "w"}, {"b", "v"}};
  for (const auto &first : keys) {
    for (const auto &second : keys) {
      for (const auto &left : offsets) {
        for (const auto &right : offsets) {
          Call reset;
          reset.kind = Kind::kReset;
          reset.start = kStart;
          refusals.push_back(reset);
          refusals.push_back(proportional(left, first.first, first.second, 2, 5));
          refusals.push_back(poisson(right, second.first, second.second, 1, 2, 10));
          refusals.push_back(proportional(right, second.first, second.second, 10, 3));
        }
      }
    }
  }
  for (uintptr_t sum : {0, 3, 4, 5}) {
    for (uintptr_t count : {0, 3, 4, 5}) {
      for (uint64_t distance : {0, 1}) {
        refusals.push_back(poisson({0}, "new " + std::to_string(sum * 10 + count), "", sum, count, distance));
        refusals.push_back(poisson({7}, "", "", sum, count, distance));
      }
    }
  }
  for (uint64_t sampled : {0, 1})
    for (uint64_t real : {0, 1}) refusals.push_back(proportional({9}, "", "", sampled, real));
  refusals.push_back(Add({1, 2, 3, 4}));
  refusals.push_back(Serialize());

  Sequence &chain = list->Begin("rules that follow each other on one sample", 4);
  for (int round = 0; round < 2; round++) {
    for (const Call &rule :
         {proportional({0, 1}, "a", "x", 2, 5), poisson({1, 2}, "b", "y", 1, 2, 10),
          proportional({0, 2}, "n", "", 3, 10), proportional({3}, "trace endpoint", "e", 1, 7),
          proportional({2}, "end_timestamp_ns", "", 1, 3), proportional({0}, "a", "z", 1, 9),
          poisson({0, 3}, "local root span id", "", 0, 3, 100)})
      chain.push_back(rule);
    Call endpoint;
    endpoint.kind = Kind::kSetEndpoint;
    endpoint.root_span = 8;
    endpoint.endpoint = T("e");
    chain.push_back(endpoint);
    const Label all[] = {TextLabel("a", "x"), TextLabel("b", "y"), NumberLabel("n", 4),
                         NumberLabel("local root span id", 8)};
    for (unsigned subset = 0; subset < 16; subset++) {
      for (int64_t timestamp : {0, 6}) {
        for (bool reverse : {false, true}) {
          Call add = Add({11, 17, 23, -5}, timestamp);
          for (unsigned bit = 0; bit < 4; bit++)
            if (subset >> bit & 1) add.labels.push_back(all[bit]);
          if (reverse) add.labels = std::vector<Label>(add.labels.rbegin(), add.labels.rend());
          chain.push_back(add);
        }
      }
    }
    chain.push_back(Serialize());
  }
}

} // namespace

std::vector<Directed> DirectedSequences() {
  List list;
  Utf8InAdd(&list);
  TwoFaultsInAdd(&list);
  Utf8InOthers(&list);
  Huge(&list);
  Numbers(&list);
  Long(&list);
  Debug(&list);
  Addresses(&list);
  Handles(&list);
  Rules(&list);
  return list.Take();
}

} // namespace conformance
