/* Last stage of the reader: does the profile hold together? */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/reader.h"

/* The ids of one table. Ours and most others' are 1..n in this order and need no look-up; if not, `sorted`
 * has them. */
typedef struct id_set {
  uint64_t *sorted;
  size_t count;
} id_set;

static int compare_ids(const void *a, const void *b) {
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return left < right ? -1 : left > right;
}

static bool id_set_has(const id_set *set, uint64_t id) {
  if (!set->sorted) return id >= 1 && id <= set->count;
  return bsearch(&id, set->sorted, set->count, sizeof id, compare_ids) != NULL;
}

/* `ids` is owned by the set afterwards. */
static bool id_set_init(id_set *set, uint64_t *ids, size_t count, const char *what, nf_reader_rules rules,
                        nf_error *error) {
  set->sorted = ids;
  set->count = count;
  bool dense = true;
  for (size_t i = 0; i < count; i++) {
    if (ids[i] == 0) return nf_error_set(error, "%s number %zu has id 0, which is reserved", what, i);
    if (ids[i] == i + 1) continue;
    if (rules == NF_READER_RULES_OURS)
      return nf_error_set(error, "%s number %zu has id %" PRIu64 " instead of %zu", what, i, ids[i], i + 1);
    dense = false;
  }
  if (dense) {
    nf_free(ids);
    set->sorted = NULL;
    return true;
  }
  qsort(ids, count, sizeof *ids, compare_ids);
  for (size_t i = 1; i < count; i++)
    if (ids[i] == ids[i - 1]) return nf_error_set(error, "two %ss have the id %" PRIu64, what, ids[i]);
  return true;
}

typedef struct checker {
  const Pprof__Profile *profile;
  nf_reader_rules rules;
  nf_error *error;
  id_set mappings, functions, locations;
} checker;

/* ---- Strings ---- */

static bool has_string(const checker *check, int64_t index) {
  return index >= 0 && (uint64_t)index < check->profile->n_string_table;
}

static bool no_string(const checker *check, const char *what, uint64_t which, const char *field,
                      int64_t index) {
  return nf_error_set(check->error, "%s %" PRIu64 ": its %s is string %" PRId64 ", but there are %zu strings",
                      what, which, field, index, check->profile->n_string_table);
}

static int compare_strings(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool check_no_string_twice(const checker *check) {
  const Pprof__Profile *profile = check->profile;
  size_t size = profile->n_string_table * sizeof(char *);
  char **sorted = nf_alloc(size);
  if (!sorted)
    return nf_error_set(check->error, "out of memory for checking %zu strings", profile->n_string_table);
  memcpy(sorted, profile->string_table, size);
  qsort(sorted, profile->n_string_table, sizeof *sorted, compare_strings);
  bool ok = true;
  for (size_t i = 1; ok && i < profile->n_string_table; i++)
    if (strcmp(sorted[i - 1], sorted[i]) == 0)
      ok =
          nf_error_set(check->error, "the string table holds a string of %zu bytes twice", strlen(sorted[i]));
  nf_free(sorted);
  return ok;
}

static bool check_strings(const checker *check) {
  if (check->profile->n_string_table == 0)
    return nf_error_set(check->error, "not a pprof profile: it has no string table");
  if (check->profile->string_table[0][0] != 0) return nf_error_set(check->error, "string 0 is not empty");
  return check->rules == NF_READER_RULES_OURS ? check_no_string_twice(check) : true;
}

/* ---- Tables ---- */

#define COLLECT_IDS(set, rows, count, what)                                                                  \
  do {                                                                                                       \
    uint64_t *ids = nf_alloc(((count) + 1) * sizeof *ids);                                                   \
    if (!ids) return nf_error_set(check->error, "out of memory for %zu ids", (size_t)(count));               \
    for (size_t i = 0; i < (count); i++) ids[i] = (rows)[i]->id;                                             \
    if (!id_set_init(&(set), ids, (count), (what), check->rules, check->error)) return false;                \
  } while (0)

static bool collect_ids(checker *check) {
  const Pprof__Profile *profile = check->profile;
  COLLECT_IDS(check->mappings, profile->mapping, profile->n_mapping, "mapping");
  COLLECT_IDS(check->functions, profile->function, profile->n_function, "function");
  COLLECT_IDS(check->locations, profile->location, profile->n_location, "location");
  return true;
}

static bool check_value_type(const checker *check, const char *what, size_t which,
                             const Pprof__ValueType *type) {
  if (!has_string(check, type->type)) return no_string(check, what, which, "type", type->type);
  if (!has_string(check, type->unit)) return no_string(check, what, which, "unit", type->unit);
  return true;
}

static bool check_mapping(const checker *check, const Pprof__Mapping *mapping) {
  if (!has_string(check, mapping->filename))
    return no_string(check, "mapping", mapping->id, "filename", mapping->filename);
  if (!has_string(check, mapping->build_id))
    return no_string(check, "mapping", mapping->id, "build_id", mapping->build_id);
  if (check->rules == NF_READER_RULES_OURS && (mapping->has_functions || mapping->has_filenames ||
                                               mapping->has_line_numbers || mapping->has_inline_frames))
    return nf_error_set(check->error, "mapping %" PRIu64 " has flags that we never write", mapping->id);
  return true;
}

static bool check_function(const checker *check, const Pprof__Function *function) {
  if (!has_string(check, function->name))
    return no_string(check, "function", function->id, "name", function->name);
  if (!has_string(check, function->system_name))
    return no_string(check, "function", function->id, "system_name", function->system_name);
  if (!has_string(check, function->filename))
    return no_string(check, "function", function->id, "filename", function->filename);
  return true;
}

static bool check_location(const checker *check, const Pprof__Location *location) {
  if (location->mapping_id != 0 && !id_set_has(&check->mappings, location->mapping_id))
    return nf_error_set(check->error,
                        "location %" PRIu64 " refers to mapping %" PRIu64 ", which does not exist",
                        location->id, location->mapping_id);
  for (size_t i = 0; i < location->n_line; i++)
    if (!id_set_has(&check->functions, location->line[i]->function_id))
      return nf_error_set(
          check->error, "location %" PRIu64 ", line %zu refers to function %" PRIu64 ", which does not exist",
          location->id, i, location->line[i]->function_id);
  if (check->rules == NF_READER_RULES_OURS) {
    if (location->n_line != 1)
      return nf_error_set(check->error, "location %" PRIu64 " has %zu lines instead of one", location->id,
                          location->n_line);
    if (location->mapping_id == 0)
      return nf_error_set(check->error, "location %" PRIu64 " has no mapping", location->id);
    if (location->is_folded)
      return nf_error_set(check->error, "location %" PRIu64 " is folded, which we never write", location->id);
  }
  return true;
}

/* ---- Samples ---- */

static bool check_label(const checker *check, size_t sample, size_t which, const Pprof__Label *label) {
  const struct {
    const char *name;
    int64_t index;
  } strings[] = {{"key", label->key}, {"str", label->str}, {"num_unit", label->num_unit}};
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
    if (!has_string(check, strings[i].index))
      return nf_error_set(check->error,
                          "sample %zu, label %zu: its %s is string %" PRId64 ", but there are %zu strings",
                          sample, which, strings[i].name, strings[i].index, check->profile->n_string_table);
  if (check->rules == NF_READER_RULES_OURS && label->str != 0 && (label->num != 0 || label->num_unit != 0))
    return nf_error_set(check->error, "sample %zu, label %zu is both text and number", sample, which);
  return true;
}

/* "trace endpoint" is the one key that may come twice: once from the user, once from the endpoints. */
static bool check_no_key_twice(const checker *check, size_t which, const Pprof__Sample *sample) {
  if (sample->n_label < 2) return true;
  uint64_t *keys = nf_alloc(sample->n_label * sizeof *keys);
  if (!keys) return nf_error_set(check->error, "out of memory for checking %zu labels", sample->n_label);
  for (size_t i = 0; i < sample->n_label; i++) keys[i] = (uint64_t)sample->label[i]->key;
  qsort(keys, sample->n_label, sizeof *keys, compare_ids);
  bool ok = true;
  for (size_t i = 1; ok && i < sample->n_label; i++) {
    const char *key = check->profile->string_table[keys[i]];
    if (keys[i] != keys[i - 1]) continue;
    if (strcmp(key, "trace endpoint") == 0 && !(i + 1 < sample->n_label && keys[i + 1] == keys[i])) continue;
    ok = nf_error_set(check->error, "sample %zu has two labels whose key is string %" PRIu64, which, keys[i]);
  }
  nf_free(keys);
  return ok;
}

static bool check_sample(const checker *check, size_t which, const Pprof__Sample *sample) {
  if (sample->n_value != check->profile->n_sample_type)
    return nf_error_set(check->error, "sample %zu has %zu values, but there are %zu sample types", which,
                        sample->n_value, check->profile->n_sample_type);
  for (size_t i = 0; i < sample->n_location_id; i++)
    if (!id_set_has(&check->locations, sample->location_id[i]))
      return nf_error_set(check->error, "sample %zu refers to location %" PRIu64 ", which does not exist",
                          which, sample->location_id[i]);
  for (size_t i = 0; i < sample->n_label; i++)
    if (!check_label(check, which, i, sample->label[i])) return false;
  return check->rules == NF_READER_RULES_OURS ? check_no_key_twice(check, which, sample) : true;
}

/* ---- The whole ---- */

static bool check_header(const checker *check) {
  const Pprof__Profile *profile = check->profile;
  if (profile->n_sample_type == 0 && profile->n_sample != 0 && check->rules == NF_READER_RULES_PPROF)
    return nf_error_set(check->error, "there are %zu samples, but no sample types", profile->n_sample);
  for (size_t i = 0; i < profile->n_sample_type; i++)
    if (!check_value_type(check, "sample type", i, profile->sample_type[i])) return false;
  if (profile->period_type && !check_value_type(check, "period type", 0, profile->period_type)) return false;
  for (size_t i = 0; i < profile->n_comment; i++)
    if (!has_string(check, profile->comment[i]))
      return no_string(check, "comment", i, "text", profile->comment[i]);
  const struct {
    const char *name;
    int64_t index;
  } strings[] = {{"drop_frames", profile->drop_frames},
                 {"keep_frames", profile->keep_frames},
                 {"default_sample_type", profile->default_sample_type}};
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
    if (!has_string(check, strings[i].index))
      return nf_error_set(check->error, "%s is string %" PRId64 ", but there are %zu strings",
                          strings[i].name, strings[i].index, profile->n_string_table);
    if (check->rules == NF_READER_RULES_OURS && strings[i].index != 0)
      return nf_error_set(check->error, "the profile has %s, which we never write", strings[i].name);
  }
  if (check->rules == NF_READER_RULES_OURS && profile->n_comment)
    return nf_error_set(check->error, "the profile has comments, which we never write");
  return true;
}

static bool check_all(checker *check) {
  const Pprof__Profile *profile = check->profile;
  if (!check_strings(check) || !check_header(check) || !collect_ids(check)) return false;
  for (size_t i = 0; i < profile->n_mapping; i++)
    if (!check_mapping(check, profile->mapping[i])) return false;
  for (size_t i = 0; i < profile->n_function; i++)
    if (!check_function(check, profile->function[i])) return false;
  for (size_t i = 0; i < profile->n_location; i++)
    if (!check_location(check, profile->location[i])) return false;
  for (size_t i = 0; i < profile->n_sample; i++)
    if (!check_sample(check, i, profile->sample[i])) return false;
  return true;
}

bool nf_reader_check(const Pprof__Profile *profile, nf_reader_rules rules, nf_error *error) {
  checker check = {profile, rules, error, {NULL, 0}, {NULL, 0}, {NULL, 0}};
  bool ok = check_all(&check);
  nf_free(check.mappings.sorted);
  nf_free(check.functions.sorted);
  nf_free(check.locations.sorted);
  return ok;
}
