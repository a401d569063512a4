#include "tests/fuzz/model.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "tests/fuzz/check.h"
#include "tests/fuzz/utf8_reference.h"

namespace fuzz {

namespace {

const char kAddFailed[] = "ddog_prof_Profile_add failed: ";
const char kRootSpan[] = "local root span id";
const char kEndTimestamp[] = "end_timestamp_ns";
const char kTraceEndpoint[] = "trace endpoint";

// Numbers wrap around.
void AddUp(std::vector<int64_t> *sums, const std::vector<int64_t> &values) {
  for (size_t i = 0; i < values.size(); i++)
    (*sums)[i] = static_cast<int64_t>(static_cast<uint64_t>((*sums)[i]) + static_cast<uint64_t>(values[i]));
}

int64_t Scaled(int64_t value, double scale) {
  double result = std::round(static_cast<double>(value) * scale);
  if (std::isnan(result)) return 0;
  if (result >= std::ldexp(1, 63)) return INT64_MAX;
  if (result <= -std::ldexp(1, 63)) return INT64_MIN;
  return static_cast<int64_t>(result);
}

double ScaleOf(const ModelRule &rule, const std::vector<int64_t> &values) {
  if (!rule.poisson) return static_cast<double>(rule.real) / static_cast<double>(rule.sampled);
  int64_t sum = values[rule.sum_offset], count = values[rule.count_offset];
  if (sum == 0 || count == 0) return 1;
  double average = static_cast<double>(sum) / static_cast<double>(count);
  return 1 / (1 - std::exp(-average / static_cast<double>(rule.distance)));
}

bool Share(const std::vector<uintptr_t> &a, const std::vector<uintptr_t> &b) {
  for (uintptr_t offset : a)
    if (std::find(b.begin(), b.end(), offset) != b.end()) return true;
  return false;
}

bool ByValue(const ModelRule &rule) { return rule.name.empty() && rule.value.empty(); }

} // namespace

// ---- Rules of adding ----

std::string Model::WhyNotAdd(const ModelSample &sample) const {
  std::vector<const std::string *> texts;
  for (const ModelLocation &l : sample.locations)
    texts.insert(texts.end(), {&l.mapping_filename, &l.build_id, &l.name, &l.system_name, &l.filename});
  for (const ModelLabel &l : sample.labels) texts.insert(texts.end(), {&l.key, &l.str, &l.num_unit});
  for (const std::string *text : texts) {
    Utf8Fault fault = FirstFault(*text);
    if (fault.found) return kAddFailed + FaultText(fault);
  }
  if (sample.values.size() != n_types_)
    return kAddFailed + ("expected " + std::to_string(n_types_)) + " sample types, but sample had " +
           std::to_string(sample.values.size()) + " sample types";
  std::set<std::string> keys;
  for (const ModelLabel &l : sample.labels) {
    if (!keys.insert(l.key).second) return kAddFailed + std::string("Duplicate label on sample: ");
    if (l.key == kRootSpan && (!l.str.empty() || l.num == 0))
      return kAddFailed + std::string("Invalid \"local root span id\" label: ");
    if (l.key == kEndTimestamp) return kAddFailed + std::string("Timestamp should not be passed as a label ");
  }
  return "";
}

Model::Key Model::KeyOf(const ModelSample &sample) {
  Key key = {sample.locations, {}};
  for (const ModelLabel &l : sample.labels) key.second.insert(l.Kept());
  return key;
}

bool Model::Repeats(const ModelSample &sample, int64_t timestamp) const {
  return timestamp == 0 && index_.count(KeyOf(sample));
}

void Model::Add(const ModelSample &sample, int64_t timestamp) {
  Row row = {sample.locations, {}, sample.values, timestamp};
  for (const ModelLabel &l : sample.labels) {
    auto [at, is_new] = label_ids_.emplace(l.Kept(), static_cast<int>(labels_.size()));
    if (is_new) labels_.push_back(l.Kept());
    row.labels.push_back(at->second);
  }
  std::sort(row.labels.begin(), row.labels.end());
  if (timestamp) {
    timestamped_.push_back(std::move(row));
    return;
  }
  auto [at, is_new] = index_.emplace(KeyOf(sample), aggregated_.size());
  if (is_new)
    aggregated_.push_back(std::move(row));
  else
    AddUp(&aggregated_[at->second].values, sample.values);
}

// ---- Endpoints ----

void Model::SetEndpoint(uint64_t root_span, const std::string &name) { endpoints_[root_span] = Lossy(name); }

void Model::AddEndpointCount(const std::string &name, int64_t value) {
  std::string lossy = Lossy(name);
  for (auto &[known, count] : endpoint_counts_)
    if (known == lossy) {
      count = static_cast<int64_t>(static_cast<uint64_t>(count) + static_cast<uint64_t>(value));
      return;
    }
  endpoint_counts_.emplace_back(lossy, value);
}

// ---- Upscaling ----

std::string Model::WhyNotRule(const ModelRule &rule) const {
  if (rule.poisson && rule.distance == 0)
    return "ddog_prof_Profile_add_upscaling_rule_poisson sampling_distance parameter must be greater than 0";
  if (!rule.poisson && (rule.sampled == 0 || rule.real == 0))
    return "total_sampled and total_real parameters must not be equal to 0";
  for (uintptr_t offset : rule.offsets)
    if (offset >= n_types_) return "Invalid offset. Highest expected offset: " + std::to_string(n_types_);
  std::string name = Lossy(rule.name), value = Lossy(rule.value);
  for (const ModelRule &r : rules_)
    if (r.name == name && r.value == value && Share(r.offsets, rule.offsets))
      return "There are duplicated by-label rules for the same label name: " + name + " with at least one";
  bool by_value = name.empty() && value.empty();
  for (const ModelRule &r : rules_)
    if (ByValue(r) != by_value && Share(r.offsets, rule.offsets))
      return by_value
                 ? "The by-value rule is colliding with at least one by-label rule at offset Some("
                 : "The by-label rule (label name " + name + ", label value " + value + ") is colliding with";
  if (rule.poisson && (rule.sum_offset >= n_types_ || rule.count_offset >= n_types_))
    return "sum_value_offset " + std::to_string(rule.sum_offset) + " and count_value_offset " +
           std::to_string(rule.count_offset) + " must be strictly less than " + std::to_string(n_types_);
  return "";
}

void Model::AddRule(const ModelRule &rule) {
  rules_.push_back(rule);
  ModelRule &kept = rules_.back();
  kept.name = Lossy(rule.name);
  kept.value = Lossy(rule.value);
  std::sort(kept.offsets.begin(), kept.offsets.end());
  kept.offsets.erase(std::unique(kept.offsets.begin(), kept.offsets.end()), kept.offsets.end());
}

void Model::ApplyRules(const std::string &name, const std::string &value,
                       std::vector<int64_t> *values) const {
  for (const ModelRule &rule : rules_) {
    if (rule.name != name || rule.value != value) continue;
    double scale = ScaleOf(rule, *values);
    for (uintptr_t offset : rule.offsets) (*values)[offset] = Scaled((*values)[offset], scale);
  }
}

// ---- What is written ----

ModelSample Model::Written(const Row &row) const {
  ModelSample sample = {row.locations, row.values, {}};
  for (int id : row.labels) sample.labels.push_back(labels_[static_cast<size_t>(id)]);
  for (int id : row.labels) {
    const ModelLabel &l = labels_[static_cast<size_t>(id)];
    auto endpoint = endpoints_.find(static_cast<uint64_t>(l.num));
    if (l.key == kRootSpan && endpoint != endpoints_.end())
      sample.labels.push_back({kTraceEndpoint, endpoint->second, 0, ""});
  }
  if (row.timestamp) sample.labels.push_back({kEndTimestamp, "", row.timestamp, ""});
  for (const ModelLabel &l : sample.labels)
    if (!l.key.empty() || !l.str.empty()) ApplyRules(l.key, l.str, &sample.values);
  ApplyRules("", "", &sample.values);
  return sample;
}

std::vector<ModelSample> Model::Samples() const {
  std::vector<ModelSample> samples;
  for (const Row &row : timestamped_) samples.push_back(Written(row));
  for (const Row &row : aggregated_) samples.push_back(Written(row));
  return samples;
}

void Model::Clear() { *this = Model(n_types_); }

// ---- Profiles ----

std::string WithoutNul(const std::string &text) {
  std::string out;
  for (char c : text) out += c ? std::string(1, c) : "\xE2\x90\x80";
  return out;
}

std::vector<ModelSample> SamplesOf(const Pprof__Profile *p) {
  std::unordered_map<uint64_t, const Pprof__Mapping *> mappings;
  std::unordered_map<uint64_t, const Pprof__Function *> functions;
  std::unordered_map<uint64_t, ModelLocation> locations;
  auto text = [p](int64_t index) { return std::string(p->string_table[index]); };
  for (size_t i = 0; i < p->n_mapping; i++) mappings[p->mapping[i]->id] = p->mapping[i];
  for (size_t i = 0; i < p->n_function; i++) functions[p->function[i]->id] = p->function[i];
  for (size_t i = 0; i < p->n_location; i++) {
    const Pprof__Location *l = p->location[i];
    CHECK(l->mapping_id && l->n_line == 1 && l->line[0]->function_id);
    const Pprof__Mapping *m = mappings.at(l->mapping_id);
    const Pprof__Function *f = functions.at(l->line[0]->function_id);
    ModelLocation location;
    location.mapping = {m->memory_start, m->memory_limit, m->file_offset};
    location.mapping_filename = text(m->filename);
    location.build_id = text(m->build_id);
    location.name = text(f->name);
    location.system_name = text(f->system_name);
    location.filename = text(f->filename);
    location.start_line = f->start_line;
    location.address = l->address;
    location.line = l->line[0]->line;
    locations[l->id] = location;
  }
  std::vector<ModelSample> samples;
  for (size_t i = 0; i < p->n_sample; i++) {
    const Pprof__Sample *s = p->sample[i];
    ModelSample sample;
    for (size_t k = 0; k < s->n_location_id; k++) sample.locations.push_back(locations.at(s->location_id[k]));
    sample.values.assign(s->value, s->value + s->n_value);
    for (size_t k = 0; k < s->n_label; k++) {
      const Pprof__Label *l = s->label[k];
      sample.labels.push_back({text(l->key), text(l->str), l->num, text(l->num_unit)});
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

void CheckEqual(const std::vector<ModelSample> &expected, const std::vector<ModelSample> &actual) {
  CHECK(actual.size() == expected.size(), "%zu samples, not %zu", actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); i++) {
    const ModelSample &e = expected[i], &a = actual[i];
    CHECK(a.locations.size() == e.locations.size(), "sample %zu", i);
    for (size_t k = 0; k < e.locations.size(); k++) {
      ModelLocation l = e.locations[k];
      for (std::string *text : {&l.mapping_filename, &l.build_id, &l.name, &l.system_name, &l.filename})
        *text = WithoutNul(*text);
      CHECK(a.locations[k] == l, "sample %zu, frame %zu", i, k);
    }
    CHECK(a.labels.size() == e.labels.size(), "sample %zu has %zu labels, not %zu", i, a.labels.size(),
          e.labels.size());
    for (size_t k = 0; k < e.labels.size(); k++) {
      ModelLabel l = {WithoutNul(e.labels[k].key), WithoutNul(e.labels[k].str), e.labels[k].num,
                      WithoutNul(e.labels[k].num_unit)};
      CHECK(a.labels[k] == l, "sample %zu, label %zu (%s)", i, k, a.labels[k].key.c_str());
    }
    CHECK(a.values.size() == e.values.size(), "sample %zu", i);
    for (size_t k = 0; k < e.values.size(); k++)
      CHECK(a.values[k] == e.values[k], "sample %zu, value %zu is %lld, not %lld", i, k,
            static_cast<long long>(a.values[k]), static_cast<long long>(e.values[k]));
  }
}

} // namespace fuzz
