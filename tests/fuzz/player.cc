#include "tests/fuzz/player.h"

#include <optional>

#include "core/alloc.h"
#include "core/reader.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/endpoint_counts.h"
#include "tests/fuzz/memory.h"
#include "tests/fuzz/utf8_reference.h"

namespace fuzz {

namespace {

constexpr size_t kMostBytes = 64 << 20;

std::string TakeText(ddog_Error *error) {
  ddog_CharSlice m = ddog_Error_message(error);
  std::string text(m.ptr, m.len);
  CHECK(!text.empty(), "an error without a text");
  CHECK(!FirstFault(text).found, "an error that is not UTF-8");
  ddog_Error_drop(error);
  CHECK(ddog_Error_message(error).len == 0);
  ddog_Error_drop(error);
  return text;
}

std::optional<ddog_Timespec> Time(Input *input) {
  uint8_t kind = input->Byte();
  if (kind < 0x40) return std::nullopt;
  if (kind < 0xC0) return ddog_Timespec{1700000000 + kind, kind * 1000000u};
  int64_t seconds = input->Number();
  return ddog_Timespec{seconds, static_cast<uint32_t>(input->Number())};
}

// Nanoseconds beyond a second count on; beyond the end of time there is its end.
ddog_Timespec Normal(ddog_Timespec t) {
  uint32_t carry = t.nanoseconds / 1000000000;
  if (t.seconds > INT64_MAX - static_cast<int64_t>(carry)) return {INT64_MAX, 999999999};
  return {t.seconds + carry, t.nanoseconds % 1000000000};
}

ddog_prof_Profile New(Input *input, Arguments *arguments, size_t n_types) {
  auto *types = arguments->Array<ddog_prof_ValueType>(n_types);
  std::string ignored;
  for (size_t i = 0; i < n_types; i++) types[i] = {arguments->Text(&ignored), arguments->Text(&ignored)};
  ddog_prof_Period period = {{arguments->Text(&ignored), arguments->Text(&ignored)}, input->Number()};
  std::optional<ddog_Timespec> start = Time(input);
  ddog_prof_Profile_NewResult r = ddog_prof_Profile_new(
      {types, n_types}, input->Byte() % 2 ? &period : nullptr, start ? &*start : nullptr);
  arguments->EndCall();
  CHECK(r.tag == DDOG_PROF_PROFILE_NEW_RESULT_OK);
  return r.ok;
}

} // namespace

Player::Player(Input *input, Arguments *arguments)
    : input_(input), arguments_(arguments), model_(input->Byte() % 8) {
  profile_ = New(input, arguments, model_.n_types());
  CheckStats();
}

Player::~Player() {
  FailMemoryAfter(kNever);
  ddog_prof_Profile_drop(&profile_);
  CHECK(!profile_.inner);
  ddog_prof_Profile_drop(&profile_);
}

bool Player::Judge(ddog_prof_Profile_Result result, const std::string &why_not, bool excused) {
  excused |= MemoryFailed();
  FailMemoryAfter(kNever);
  arguments_->EndCall();
  if (result.tag == DDOG_PROF_PROFILE_RESULT_OK) {
    CHECK(result.ok);
    CHECK(why_not.empty(), "succeeded instead of: %s", why_not.c_str());
    return true;
  }
  std::string text = TakeText(&result.err);
  if (excused) return false;
  CHECK(!why_not.empty(), "failed: %s", text.c_str());
  CHECK(text.compare(0, why_not.size(), why_not) == 0, "wrong text:\n%s\ninstead of\n%s", text.c_str(),
        why_not.c_str());
  return false;
}

void Player::CheckStats() {
  ddog_prof_Profile_Stats stats = ddog_prof_Profile_stats(&profile_);
  CHECK(stats.samples_aggregated == model_.n_aggregated());
  CHECK(stats.samples_timestamped == model_.n_timestamped());
  CHECK(stats.samples_refused == refused_, "%llu refused, not %llu",
        (unsigned long long)stats.samples_refused, (unsigned long long)refused_);
}

// ---- Calls ----

void Player::Add() {
  ModelSample sample;
  ddog_prof_Sample passed = arguments_->Sample(model_.n_types(), &sample);
  int64_t timestamp = input_->Byte() % 3 ? 0 : input_->Number();
  bool failing = input_->OneIn(16);
  std::string why_not = model_.WhyNotAdd(sample);
  if (failing) FailMemoryAfter(input_->Byte() % 16);
  ddog_prof_Profile_Result r = ddog_prof_Profile_add(&profile_, passed, timestamp);
  // A sample that repeats one is added up whatever the budget.
  bool excused = budget_ && !model_.Repeats(sample, timestamp);
  bool memory_failed = MemoryFailed();
  uint64_t refused = ddog_prof_Profile_stats(&profile_).samples_refused;
  if (Judge(r, why_not, excused))
    model_.Add(sample, timestamp);
  else if (why_not.empty() && memory_failed && budget_)
    refused_ += refused != refused_; // either may have been the reason
  else if (why_not.empty() && !memory_failed)
    CHECK(refused == ++refused_, "refused by the budget, but not counted");
  CheckStats();
}

void Player::SetEndpoint() {
  std::string name;
  ddog_CharSlice passed = arguments_->Text(&name);
  uint64_t root_span = static_cast<uint64_t>(input_->Number());
  if (input_->OneIn(16)) FailMemoryAfter(input_->Byte() % 8);
  if (Judge(ddog_prof_Profile_set_endpoint(&profile_, root_span, passed), "", budget_))
    model_.SetEndpoint(root_span, name);
}

void Player::AddEndpointCount() {
  std::string name;
  ddog_CharSlice passed = arguments_->Text(&name);
  int64_t count = input_->Number();
  if (input_->OneIn(16)) FailMemoryAfter(input_->Byte() % 8);
  if (Judge(ddog_prof_Profile_add_endpoint_count(&profile_, passed, count), "", budget_))
    model_.AddEndpointCount(name, count);
}

void Player::AddRule() {
  ModelRule rule;
  ddog_prof_Slice_Usize offsets = arguments_->Offsets(model_.n_types() ? model_.n_types() : 1, &rule.offsets);
  ddog_CharSlice name = arguments_->Text(&rule.name), value = arguments_->Text(&rule.value);
  rule.poisson = input_->Byte() % 2;
  bool failing = input_->OneIn(16);
  uint8_t fail_after = failing ? input_->Byte() % 8 : 0;
  ddog_prof_Profile_Result r;
  if (rule.poisson) {
    rule.sum_offset = input_->Byte() % 9;
    rule.count_offset = input_->Byte() % 9;
    rule.distance = static_cast<uint64_t>(input_->Number());
    if (failing) FailMemoryAfter(fail_after);
    r = ddog_prof_Profile_add_upscaling_rule_poisson(&profile_, offsets, name, value, rule.sum_offset,
                                                     rule.count_offset, rule.distance);
  } else {
    rule.sampled = static_cast<uint64_t>(input_->Number());
    rule.real = static_cast<uint64_t>(input_->Number());
    if (failing) FailMemoryAfter(fail_after);
    r = ddog_prof_Profile_add_upscaling_rule_proportional(&profile_, offsets, name, value, rule.sampled,
                                                          rule.real);
  }
  if (Judge(r, model_.WhyNotRule(rule), budget_)) model_.AddRule(rule);
}

void Player::SetBudget() {
  uint64_t bytes =
      input_->Byte() % 4 ? static_cast<uint64_t>(input_->Number()) : input_->Byte() * UINT64_C(512);
  Judge(ddog_prof_Profile_set_budget(&profile_, bytes), "", false);
  budget_ = bytes != 0 && bytes < kMostBytes;
  CHECK(ddog_prof_Profile_stats(&profile_).budget_bytes == bytes || bytes == UINT64_MAX);
}

void Player::Reset() {
  std::optional<ddog_Timespec> start = Time(input_);
  if (input_->OneIn(8)) FailMemoryAfter(input_->Byte() % 8);
  if (Judge(ddog_prof_Profile_reset(&profile_, start ? &*start : nullptr), "", budget_)) {
    model_.Clear();
    refused_ = 0;
  }
  CheckStats();
}

void Player::Serialize() {
  std::optional<ddog_Timespec> end = Time(input_), next_start = Time(input_);
  int64_t duration = input_->Number();
  bool has_duration = input_->Byte() % 2;
  int codec = input_->Byte() % 6 - 1; // -1 and 4 do not exist
  if (input_->OneIn(8)) FailMemoryAfter(input_->Byte() % 16);
  ddog_prof_Profile_SerializeResult r = ddog_prof_Profile_serialize_as(
      &profile_, end ? &*end : nullptr, has_duration ? &duration : nullptr,
      next_start ? &*next_start : nullptr, static_cast<ddog_prof_Codec>(codec));
  bool excused = MemoryFailed() || budget_, exists = codec >= 0 && codec < 4;
  FailMemoryAfter(kNever);
  if (r.tag != DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK) {
    std::string text = TakeText(&r.err);
    CHECK(!exists || excused, "failed: %s", text.c_str());
    CheckStats(); // nothing is lost
    return;
  }
  CHECK(exists);
  if (end) {
    ddog_Timespec normal = Normal(*end);
    CHECK(r.ok.end.seconds == normal.seconds && r.ok.end.nanoseconds == normal.nanoseconds);
  }
  CHECK(r.ok.start.nanoseconds < 1000000000);

  ddog_Slice_U8 bytes = ddog_Vec_U8_as_slice(&r.ok.buffer);
  nf_error error = {};
  Pprof__Profile *profile = nullptr;
  uint8_t *raw = nullptr;
  size_t len = 0;
  CHECK(nf_reader_decompress(bytes.ptr, bytes.len, kMostBytes, &raw, &len, &error), "%s",
        nf_error_text(&error));
  CHECK(nf_reader_unpack(raw, len, NF_READER_MEMORY_FACTOR * kMostBytes, &profile, &error), "%s",
        nf_error_text(&error));
  // Two texts of which one has a NUL where the other has the reader's sign for it would look the same to it.
  bool nul = memchr(bytes.ptr, 0, bytes.len) != nullptr || codec != DDOG_PROF_CODEC_NONE;
  nf_reader_rules rules = nul && model_.n_types() ? NF_READER_RULES_PPROF : NF_READER_RULES_OURS;
  CHECK(nf_reader_check(profile, rules, &error), "%s", nf_error_text(&error));
  CheckEqual(model_.Samples(), SamplesOf(profile));
  if (has_duration && duration >= 0) CHECK(profile->duration_nanos == duration);
  CHECK(profile->duration_nanos >= 0 && profile->time_nanos >= 0);
  CHECK(profile->n_sample_type == model_.n_types());
  nf_reader_drop(profile);
  nf_free(raw);

  const ddog_prof_ProfiledEndpointsStats *stats = r.ok.endpoints_stats;
  CHECK(stats && endpoint_counts_size(stats) == model_.endpoint_counts().size());
  for (size_t i = 0; i < model_.endpoint_counts().size(); i++) {
    endpoint_count actual = endpoint_counts_get(stats, i);
    CHECK(std::string(actual.name.ptr, actual.name.len) == model_.endpoint_counts()[i].first);
    CHECK(actual.value == model_.endpoint_counts()[i].second);
  }
  ddog_prof_EncodedProfile_drop(&r.ok);
  ddog_prof_EncodedProfile_drop(&r.ok);
  model_.Clear();
  refused_ = 0;
  CheckStats();
}

} // namespace fuzz
