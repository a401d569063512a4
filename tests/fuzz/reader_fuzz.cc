// The reader on anything: it must refuse with a reason or give a profile in which nothing points anywhere
// that does not exist, and which can be written and read again. The first byte tells whether the rest is
// compressed (even) or bare.
#include "core/reader.h"

#include <set>
#include <string>
#include <vector>

#include "core/alloc.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/utf8_reference.h"

namespace {

constexpr size_t kMost = 1 << 20;

void CheckRefused(nf_error *error) {
  CHECK(error->text && error->len, "refused without a reason");
  CHECK(!fuzz::FirstFault(std::string(error->text, error->len)).found, "a reason that is not UTF-8");
  nf_error_deinit(error);
}

// What NF_READER_RULES_PPROF promises, looked at without the reader's help.
void CheckReferences(const Pprof__Profile *p) {
  CHECK(p->n_string_table > 0 && p->string_table[0][0] == '\0');
  for (size_t i = 0; i < p->n_string_table; i++) CHECK(!fuzz::FirstFault(p->string_table[i]).found);
  auto string = [p](int64_t index) {
    CHECK(index >= 0 && static_cast<uint64_t>(index) < p->n_string_table, "string %lld",
          static_cast<long long>(index));
  };
  std::set<uint64_t> mappings, functions, locations;
  for (size_t i = 0; i < p->n_mapping; i++) {
    CHECK(p->mapping[i]->id && mappings.insert(p->mapping[i]->id).second);
    string(p->mapping[i]->filename);
    string(p->mapping[i]->build_id);
  }
  for (size_t i = 0; i < p->n_function; i++) {
    CHECK(p->function[i]->id && functions.insert(p->function[i]->id).second);
    string(p->function[i]->name);
    string(p->function[i]->system_name);
    string(p->function[i]->filename);
  }
  for (size_t i = 0; i < p->n_location; i++) {
    const Pprof__Location *l = p->location[i];
    CHECK(l->id && locations.insert(l->id).second);
    CHECK(!l->mapping_id || mappings.count(l->mapping_id));
    for (size_t k = 0; k < l->n_line; k++)
      CHECK(!l->line[k]->function_id || functions.count(l->line[k]->function_id));
  }
  for (size_t i = 0; i < p->n_sample_type; i++) {
    string(p->sample_type[i]->type);
    string(p->sample_type[i]->unit);
  }
  if (p->period_type) {
    string(p->period_type->type);
    string(p->period_type->unit);
  }
  for (size_t i = 0; i < p->n_sample; i++) {
    const Pprof__Sample *s = p->sample[i];
    CHECK(s->n_value == p->n_sample_type);
    for (size_t k = 0; k < s->n_location_id; k++) CHECK(locations.count(s->location_id[k]));
    for (size_t k = 0; k < s->n_label; k++) {
      string(s->label[k]->key);
      string(s->label[k]->str);
      string(s->label[k]->num_unit);
    }
  }
}

// Whether it could be read.
bool CheckBare(const uint8_t *bytes, size_t len) {
  nf_error error = {};
  Pprof__Profile *profile = nullptr;
  if (!nf_reader_unpack(bytes, len, NF_READER_MEMORY_FACTOR * kMost, &profile, &error)) {
    CHECK(!profile);
    CheckRefused(&error);
    return false;
  }
  bool ours = nf_reader_check(profile, NF_READER_RULES_OURS, &error);
  if (!ours) CheckRefused(&error);
  bool good = nf_reader_check(profile, NF_READER_RULES_PPROF, &error);
  if (!good) CheckRefused(&error);
  // Samples without values, which the original writes for a profile without sample types, are no pprof.
  CHECK(good || !ours || profile->n_sample_type == 0, "our rules are the stricter ones");
  if (good) {
    CheckReferences(profile);
    std::vector<uint8_t> packed(pprof__profile__get_packed_size(profile));
    pprof__profile__pack(profile, packed.data());
    Pprof__Profile *again = nullptr;
    CHECK(nf_reader_unpack(packed.data(), packed.size(), SIZE_MAX, &again, &error), "%s",
          nf_error_text(&error));
    CHECK(nf_reader_check(again, NF_READER_RULES_PPROF, &error), "%s", nf_error_text(&error));
    CHECK(again->n_sample == profile->n_sample && again->n_string_table == profile->n_string_table);
    nf_reader_drop(again);
  }
  nf_reader_drop(profile);
  return good;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::Input input(data, size);
  bool bare = input.Byte() % 2;
  fuzz::Exact memory(input.Rest());
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(memory.data());
  if (bare) {
    CheckBare(bytes, memory.size());
    return 0;
  }
  nf_error error = {};
  uint8_t *raw = nullptr;
  size_t len = 0;
  bool readable = false;
  if (nf_reader_decompress(bytes, memory.size(), kMost, &raw, &len, &error)) {
    CHECK(raw && len <= kMost);
    readable = CheckBare(raw, len);
    nf_free(raw);
  } else
    CheckRefused(&error);

  Pprof__Profile *profile = nullptr;
  CHECK(nf_reader_read(bytes, memory.size(), kMost, &profile, &error) == readable, "%s",
        nf_error_text(&error));
  CHECK(readable == (profile != nullptr));
  nf_reader_drop(profile);
  nf_error_deinit(&error);
  return 0;
}
