#include "tests/conformance/play.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <utility>

#include "tests/conformance/counts.h"
#include "tests/conformance/differences.h"

namespace conformance {

namespace {

// ---- Arguments ----

// Memory of texts and arrays while a sequence is played.
class Arguments {
public:
  explicit Arguments(bool places) : places_(places) {}
  ~Arguments() { EndCall(); }

  void EndCall() {
    for (void *block : own_) free(block);
    own_.clear();
    for (Slot &slot : slots_) slot.taken = false;
  }

  ddog_CharSlice Pass(const Text &text) {
    Place place = places_ ? text.place : Place::kOwn;
    if (place == Place::kNull && text.bytes.empty()) return {nullptr, 0};
    if (place == Place::kPool) {
      auto found = pool_.emplace(text.bytes, nullptr).first;
      if (!found->second) found->second.reset(CopyOf(text.bytes));
      return {found->second.get(), text.bytes.size()};
    }
    if ((place == Place::kSlot0 || place == Place::kSlot1) && text.bytes.size() <= kSlotSize) {
      Slot &slot = slots_[place == Place::kSlot1];
      if (!slot.bytes) slot.bytes.reset(static_cast<char *>(malloc(kSlotSize)));
      bool same = slot.len == text.bytes.size() && !memcmp(slot.bytes.get(), text.bytes.data(), slot.len);
      if (!slot.taken || same) {
        if (!text.bytes.empty()) memcpy(slot.bytes.get(), text.bytes.data(), text.bytes.size());
        slot.len = text.bytes.size();
        slot.taken = true;
        return {slot.bytes.get(), text.bytes.size()};
      }
    }
    char *copy = CopyOf(text.bytes);
    own_.push_back(copy);
    return {copy, text.bytes.size()};
  }

  // Exactly as long as needed, so that a sanitizer or Valgrind sees each byte read beyond the end.
  template <typename T> T *Array(size_t count) {
    if (count == 0) return nullptr;
    void *block = malloc(count * sizeof(T));
    own_.push_back(block);
    return static_cast<T *>(block);
  }

  ddog_prof_ValueType Pass(const ValueType &type) { return {Pass(type.type), Pass(type.unit)}; }

  ddog_prof_Sample Pass(const Call &call) {
    ddog_prof_Sample sample;
    auto *locations = Array<ddog_prof_Location>(call.locations.size());
    for (size_t i = 0; i < call.locations.size(); i++) {
      const Location &l = call.locations[i];
      ddog_prof_Location passed;
      memset(&passed, 0, sizeof passed);
      passed.mapping = {l.mapping.start, l.mapping.limit, l.mapping.offset, Pass(l.mapping.filename),
                        Pass(l.mapping.build_id)};
      passed.function = {Pass(l.function.name), Pass(l.function.system_name), Pass(l.function.filename),
                         l.function.start_line};
      passed.address = l.address;
      passed.line = l.line;
      locations[i] = passed;
    }
    auto *labels = Array<ddog_prof_Label>(call.labels.size());
    for (size_t i = 0; i < call.labels.size(); i++) {
      const Label &l = call.labels[i];
      labels[i] = {Pass(l.key), Pass(l.str), l.num, Pass(l.num_unit)};
    }
    auto *values = Array<int64_t>(call.values.size());
    std::copy(call.values.begin(), call.values.end(), values);
    sample.locations = {locations, call.locations.size()};
    sample.values = {values, call.values.size()};
    sample.labels = {labels, call.labels.size()};
    return sample;
  }

private:
  static constexpr size_t kSlotSize = 4096;
  struct Free {
    void operator()(char *bytes) const { free(bytes); }
  };
  struct Slot {
    std::unique_ptr<char, Free> bytes;
    size_t len = 0;
    bool taken = false; // by this call
  };

  static char *CopyOf(const std::string &bytes) {
    char *copy = static_cast<char *>(malloc(bytes.size() ? bytes.size() : 1));
    if (!bytes.empty()) memcpy(copy, bytes.data(), bytes.size());
    return copy;
  }

  bool places_;
  std::vector<void *> own_;
  std::map<std::string, std::unique_ptr<char, Free>> pool_;
  Slot slots_[2];
};

// ---- Time ----

// Seconds and less than one in nanoseconds: not every machine counts to 2^127.
using Moment = std::pair<int64_t, int64_t>;

Moment ToMoment(const ddog_Timespec &time) {
  return {time.seconds + time.nanoseconds / 1000000000, time.nanoseconds % 1000000000};
}

Moment Now() {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return {now.tv_sec, now.tv_nsec};
}

// In nanoseconds, at the ends of its range where it would be outside.
int64_t Between(const Moment &from, const Moment &to) {
  if (to < from) return 0;
  int64_t seconds, nanos = to.second - from.second, result;
  if (__builtin_sub_overflow(to.first, from.first, &seconds)) return INT64_MAX;
  if (nanos < 0) {
    nanos += 1000000000;
    seconds--;
  }
  if (__builtin_mul_overflow(seconds, int64_t{1000000000}, &result)) return INT64_MAX;
  return __builtin_add_overflow(result, nanos, &result) ? INT64_MAX : result;
}

// ---- Playing ----

class Player {
public:
  Player(const Library &library, const PlayOptions &options)
      : lib_(library), codec_(options.codec), arguments_(options.places) {}
  ~Player() {
    for (State &state : states_) lib_.ddog_prof_Profile_drop(&state.profile);
  }

  CallOutcome Do(const Call &call) {
    CallOutcome outcome;
    ddog_prof_Profile *profile = HandleOf(call);
    ddog_Timespec start = {}, end = {};
    if (call.start) start = {call.start->seconds, call.start->nanoseconds};
    if (call.end) end = {call.end->seconds, call.end->nanoseconds};
    const ddog_Timespec *start_or_null = call.start ? &start : nullptr;
    State *state = StateOf(call);
    before_ = Now();

    switch (call.kind) {
    case Kind::kNew:
      New(call, state, start_or_null, &outcome);
      break;
    case Kind::kDrop:
      lib_.ddog_prof_Profile_drop(profile);
      if (state && state->profile.inner) outcome.violation = "drop leaves the inner pointer";
      break;
    case Kind::kAdd: {
      Take(lib_.ddog_prof_Profile_add(profile, arguments_.Pass(call), call.timestamp), &outcome);
      if (outcome.ok && call.timestamp != 0 && state) state->timestamped++;
      break;
    }
    case Kind::kSetEndpoint:
      Take(lib_.ddog_prof_Profile_set_endpoint(profile, call.root_span, arguments_.Pass(call.endpoint)),
           &outcome);
      break;
    case Kind::kEndpointCount:
      Take(lib_.ddog_prof_Profile_add_endpoint_count(profile, arguments_.Pass(call.endpoint), call.count),
           &outcome);
      if (state) state->counted = true;
      break;
    case Kind::kPoisson:
      Take(lib_.ddog_prof_Profile_add_upscaling_rule_poisson(
               profile, Offsets(call), arguments_.Pass(call.label_name), arguments_.Pass(call.label_value),
               call.sum_offset, call.count_offset, call.distance),
           &outcome);
      break;
    case Kind::kProportional:
      Take(lib_.ddog_prof_Profile_add_upscaling_rule_proportional(
               profile, Offsets(call), arguments_.Pass(call.label_name), arguments_.Pass(call.label_value),
               call.sampled, call.real),
           &outcome);
      break;
    case Kind::kSerialize:
      Serialize(call, profile, state, call.end ? &end : nullptr, start_or_null, &outcome);
      break;
    case Kind::kReset:
      Take(lib_.ddog_prof_Profile_reset(profile, start_or_null), &outcome);
      if (outcome.ok && state) Restart(state, call);
      break;
    }
    arguments_.EndCall();
    return outcome;
  }

private:
  struct State {
    ddog_prof_Profile profile = {nullptr};
    bool start_is_now = false;
    Moment start_from, start_to; // of the call that read the clock
    size_t timestamped = 0;
    bool counted = false; // endpoints
  };

  State *StateOf(const Call &call) {
    if (call.handle == Handle::kProfile0) return &states_[0];
    if (call.handle == Handle::kProfile1) return &states_[1];
    return nullptr;
  }

  ddog_prof_Profile *HandleOf(const Call &call) {
    if (call.handle == Handle::kNull) return nullptr;
    if (call.handle == Handle::kInnerNull) {
      inner_null_.inner = nullptr;
      return &inner_null_;
    }
    return &StateOf(call)->profile;
  }

  ddog_prof_Slice_Usize Offsets(const Call &call) {
    auto *offsets = arguments_.Array<uintptr_t>(call.offsets.size());
    std::copy(call.offsets.begin(), call.offsets.end(), offsets);
    return {offsets, call.offsets.size()};
  }

  void TakeError(ddog_Error *error, CallOutcome *outcome) {
    outcome->ok = false;
    ddog_CharSlice message = lib_.ddog_Error_message(error);
    outcome->message.assign(message.ptr, message.len);
    lib_.ddog_Error_drop(error);
    if (lib_.ddog_Error_message(error).len != 0) outcome->violation = "a dropped error still has a message";
    lib_.ddog_Error_drop(error);
  }

  void Take(ddog_prof_Profile_Result result, CallOutcome *outcome) {
    if (result.tag == DDOG_PROF_PROFILE_RESULT_ERR) return TakeError(&result.err, outcome);
    if (result.tag != DDOG_PROF_PROFILE_RESULT_OK || !result.ok) outcome->violation = "OK with ok == false";
  }

  void Restart(State *state, const Call &call) {
    state->start_is_now = !call.start;
    state->start_from = before_;
    state->start_to = Now();
    state->timestamped = 0;
    state->counted = false;
  }

  void New(const Call &call, State *state, const ddog_Timespec *start, CallOutcome *outcome) {
    if (!state) return;
    lib_.ddog_prof_Profile_drop(&state->profile);
    auto *types = arguments_.Array<ddog_prof_ValueType>(call.types.size());
    for (size_t i = 0; i < call.types.size(); i++) types[i] = arguments_.Pass(call.types[i]);
    ddog_prof_Period period = {};
    if (call.period_type) period = {arguments_.Pass(*call.period_type), call.period};
    ddog_prof_Profile_NewResult result =
        lib_.ddog_prof_Profile_new({types, call.types.size()}, call.period_type ? &period : nullptr, start);
    if (result.tag != DDOG_PROF_PROFILE_NEW_RESULT_OK) return TakeError(&result.err, outcome);
    state->profile = result.ok;
    Restart(state, call);
  }

  void Serialize(const Call &call, ddog_prof_Profile *profile, State *state, const ddog_Timespec *end,
                 const ddog_Timespec *next_start, CallOutcome *outcome) {
    int64_t duration = call.duration.value_or(0);
    const int64_t *duration_or_null = call.duration ? &duration : nullptr;
    ddog_prof_Profile_SerializeResult result =
        codec_ ? lib_.ddog_prof_Profile_serialize_as(profile, end, duration_or_null, next_start, *codec_)
               : lib_.ddog_prof_Profile_serialize(profile, end, duration_or_null, next_start);
    Moment after = Now();
    if (result.tag != DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK) return TakeError(&result.err, outcome);
    SerializeOutcome s;
    s.start = result.ok.start;
    s.end = result.ok.end;
    s.start_is_now = state->start_is_now;
    s.end_is_now = !end;
    s.duration_is_theirs = (!call.duration || *call.duration < 0) && (s.start_is_now || s.end_is_now);
    s.timestamped = state->timestamped;
    s.file.assign(reinterpret_cast<const char *>(result.ok.buffer.ptr), result.ok.buffer.len);
    s.profile = codec_ ? Encoded::FromAny(s.file) : Encoded::FromLz4(s.file);

    if (!result.ok.endpoints_stats) outcome->violation = "no endpoint statistics";
    if (!s.profile.error.empty()) outcome->violation = s.profile.error;
    if (s.start_is_now && (ToMoment(s.start) < state->start_from || ToMoment(s.start) > state->start_to))
      outcome->violation = "start is not the time of the call that set it";
    if (s.end_is_now && (ToMoment(s.end) < before_ || ToMoment(s.end) > after))
      outcome->violation = "end is not the time of this call";
    if (s.profile.Number(kTimeNanos) != Between({0, 0}, ToMoment(s.start)))
      outcome->violation = "time_nanos is not start";
    if (s.duration_is_theirs &&
        s.profile.Number(kDurationNanos) != Between(ToMoment(s.start), ToMoment(s.end)))
      outcome->violation = "duration_nanos is not end - start";

    // Sending takes long, so only where there is something to see.
    if (state->counted) s.endpoint_counts = EndpointCounts(lib_, result.ok.endpoints_stats);

    lib_.ddog_prof_EncodedProfile_drop(&result.ok);
    outcome->serialized = std::move(s);
    Restart(state, call);
  }

  const Library &lib_;
  const std::optional<ddog_prof_Codec> codec_;
  Arguments arguments_;
  State states_[2];
  ddog_prof_Profile inner_null_ = {nullptr};
  Moment before_;
};

// ---- Comparing ----

std::string Show(const ddog_Timespec &time) {
  return "{" + std::to_string(time.seconds) + ", " + std::to_string(time.nanoseconds) + "}";
}

std::string FieldName(unsigned field) {
  static const std::map<unsigned, std::string> names = {
      {kSampleType, "sample_type"}, {kSample, "sample"},
      {kMapping, "mapping"},        {kLocation, "location"},
      {kFunction, "function"},      {kStringTable, "string_table"},
      {kTimeNanos, "time_nanos"},   {kDurationNanos, "duration_nanos"},
      {kPeriodType, "period_type"}, {kPeriod, "period"}};
  auto found = names.find(field);
  return found == names.end() ? "field " + std::to_string(field) : found->second;
}

struct Sides {
  const Library &expected, &actual;

  std::string Differ(const std::string &what, const std::string &expected_text,
                     const std::string &actual_text) const {
    return what + "\n    " + expected.name + ": " + expected_text + "\n    " + actual.name + ": " +
           actual_text;
  }
};

std::string ShowMessage(unsigned field, const std::vector<std::string> &list, size_t index) {
  if (index >= list.size()) return "(none)";
  return field == kStringTable ? Quote(list[index]) : Describe(list[index]);
}

std::string CompareLists(const Sides &sides, unsigned field, const std::string &what,
                         const std::vector<std::string> &a, const std::vector<std::string> &b) {
  for (size_t i = 0; i < std::max(a.size(), b.size()); i++) {
    if (i < a.size() && i < b.size() && a[i] == b[i]) continue;
    return sides.Differ(what + " " + std::to_string(i) + " (of " + std::to_string(a.size()) + " and " +
                            std::to_string(b.size()) + ")",
                        ShowMessage(field, a, i), ShowMessage(field, b, i));
  }
  return "";
}

std::string CompareProfiles(const Sides &sides, const SerializeOutcome &a, const SerializeOutcome &b) {
  auto list = [](const Encoded &e, unsigned field) {
    auto found = e.messages.find(field);
    return found == e.messages.end() ? std::vector<std::string>() : found->second;
  };
  for (unsigned field = 1; field < 64; field++) {
    if (field == kTimeNanos && a.start_is_now) continue;
    if (field == kDurationNanos && a.duration_is_theirs) continue;
    std::vector<std::string> left = list(a.profile, field), right = list(b.profile, field);
    std::string what = FieldName(field);
    if (field == kSample) {
      // The order of aggregated samples is free.
      std::sort(left.begin() + std::min(a.timestamped, left.size()), left.end());
      std::sort(right.begin() + std::min(b.timestamped, right.size()), right.end());
      what += " (aggregated ones sorted, after " + std::to_string(a.timestamped) + " with timestamp)";
    }
    std::string difference = CompareLists(sides, field, what, left, right);
    if (!difference.empty()) return difference;
  }
  auto order = [&](const SerializeOutcome &s) {
    std::string out;
    for (unsigned field : s.profile.field_order)
      if (!(field == kDurationNanos && a.duration_is_theirs)) out += FieldName(field) + " ";
    return out;
  };
  if (order(a) != order(b)) return sides.Differ("order of the fields", order(a), order(b));
  return "";
}

std::string CompareCall(const Sides &sides, const CallOutcome &a, const CallOutcome &b) {
  if (!a.violation.empty()) return sides.expected.name + ": " + a.violation;
  if (!b.violation.empty()) return sides.actual.name + ": " + b.violation;
  if (a.ok != b.ok || !SameMessage(a.message, b.message))
    return sides.Differ("result", a.ok ? "OK" : "ERR " + Quote(a.message),
                        b.ok ? "OK" : "ERR " + Quote(b.message));
  if (!a.serialized) return "";
  const SerializeOutcome &left = *a.serialized, &right = *b.serialized;
  if (!left.start_is_now && ToMoment(left.start) != ToMoment(right.start))
    return sides.Differ("ok.start", Show(left.start), Show(right.start));
  if (!left.end_is_now && ToMoment(left.end) != ToMoment(right.end))
    return sides.Differ("ok.end", Show(left.end), Show(right.end));
  if (left.endpoint_counts != right.endpoint_counts && !left.endpoint_counts.empty() &&
      !right.endpoint_counts.empty())
    return sides.Differ("endpoint counts", left.endpoint_counts, right.endpoint_counts);
  return CompareProfiles(sides, left, right);
}

} // namespace

Outcome Play(const Library &library, const Sequence &sequence, const PlayOptions &options) {
  Player player(library, options);
  Outcome outcome;
  for (const Call &call : sequence) outcome.push_back(player.Do(call));
  return outcome;
}

std::string WithoutUnicodeEscapes(const std::string &message) {
  std::string out;
  for (size_t i = 0; i < message.size(); i++) {
    out += message[i];
    if (message[i] != '\\' || i + 1 == message.size()) continue;
    out += message[++i];
    if (message[i] != 'u' || message.compare(i + 1, 1, "{") != 0) continue;
    char *end = nullptr;
    unsigned long code = strtoul(message.c_str() + i + 2, &end, 16);
    if (*end != '}' || code < 0xA0) continue;
    out.resize(out.size() - 2);
    if (code < 0x800) {
      out += static_cast<char>(0xC0 | code >> 6);
    } else {
      if (code < 0x10000) {
        out += static_cast<char>(0xE0 | code >> 12);
      } else {
        out += static_cast<char>(0xF0 | code >> 18);
        out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
      }
      out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    }
    out += static_cast<char>(0x80 | (code & 0x3F));
    i = static_cast<size_t>(end - message.c_str());
  }
  return out;
}

std::string Compare(const Sequence &sequence, const Library &expected_library, const Outcome &expected,
                    const Library &actual_library, const Outcome &actual) {
  Sides sides{expected_library, actual_library};
  for (size_t i = 0; i < sequence.size(); i++) {
    std::string difference = CompareCall(sides, expected[i], actual[i]);
    if (!difference.empty()) return "call " + std::to_string(i) + ": " + difference;
  }
  return "";
}

} // namespace conformance
