/* Adding a sample. */
#include "core/limits.h"
#include "core/profile.h"
#include "core/utf8.h"
#include "core/varint.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* What is not in the profile yet. */
typedef struct news {
  size_t frames, wide_frames, labels;
  size_t strings, string_bytes; /* at most */
} news;

/* ---- what is there already ---- */

/* Writes the stack as varints of location ids, 0 for frames that have none, and counts these. */
NF_INLINE size_t write_stack(nf_profile *profile, const nf_sample *sample, nf_paths_equal_fn *paths_equal) {
  nf_locations *locations = &profile->store.locations;
  const nf_bytes_table *strings = &profile->store.strings;
  nf_location_finder finder = nf_location_finder_make(locations, strings);
  const nf_location *frame = sample->locations, *end = frame ? frame + sample->n_locations : frame;
  uint8_t *out = profile->scratch.stack.data;
  size_t unknown = 0;
  for (; frame != end; frame++) {
    const nf_location_row *row = nf_location_finder_guess(finder, frame, paths_equal);
    if (__builtin_expect(!row, 0)) {
      uint32_t id = nf_locations_find(locations, strings, frame);
      unknown += id == 0;
      out = nf_varint_put32(out, id);
    } else
      out = nf_location_varint(out, row);
  }
  profile->scratch.stack.used = (size_t)(out - profile->scratch.stack.data);
  return unknown;
}

size_t nf_write_stack(nf_profile *profile, const nf_sample *sample) {
  return write_stack(profile, sample, nf_paths_equal);
}

#ifdef __x86_64__
/* Most of an add is comparing file names: a third fewer instructions with registers of 32 bytes. */
__attribute__((target("avx2"))) NF_INLINE bool paths_equal_avx2(const void *left, const void *right,
                                                                size_t len) {
  const __m256i_u *a = left, *b = right;
  if (len - 32 > 96 - 32) return nf_bytes_equal(left, right, len);
  const __m256i_u *a_end = (const __m256i_u *)((const char *)left + len) - 1;
  const __m256i_u *b_end = (const __m256i_u *)((const char *)right + len) - 1;
  __m256i diff = _mm256_or_si256(_mm256_xor_si256(*a, *b), _mm256_xor_si256(*a_end, *b_end));
  if (len > 64) diff = _mm256_or_si256(diff, _mm256_xor_si256(a[1], b[1]));
  return _mm256_testz_si256(diff, diff);
}

__attribute__((target("avx2"))) size_t nf_write_stack_avx2(nf_profile *profile, const nf_sample *sample) {
  return write_stack(profile, sample, paths_equal_avx2);
}
#endif

static bool find_frames(nf_profile *profile, const nf_sample *sample, size_t *missing) {
  nf_array *stack = &profile->scratch.stack;
  stack->used = 0;
  if (!nf_array_reserve(stack, &profile->own, sample->n_locations * NF_VARINT32_MAX + 1)) return false;
  *missing = profile->write_stack(profile, sample);
  return true;
}

/* So many are compared with each other; more go through a table. */
#define FEW_LABELS 32

/* What is known of the labels of a sample. */
typedef struct known_labels {
  size_t missing;
  uint64_t keys;     /* a bit for each key, modulo 64 */
  bool repeated;     /* two keys had one bit: they may be equal */
  bool hidden_units; /* to be checked */
} known_labels;

static bool find_labels(nf_profile *profile, const nf_sample *sample, known_labels *known) {
  nf_array *ids = &profile->scratch.label_ids;
  ids->used = 0;
  if (!nf_array_reserve(ids, &profile->own, sample->n_labels * sizeof(uint32_t))) return false;
  nf_labels *labels = &profile->store.labels;
  const nf_bytes_table *strings = &profile->store.strings;
  nf_label_finder finder = nf_label_finder_make(labels, strings);
  uint32_t *out = NF_ROWS(*ids, uint32_t);
  const nf_label *label = sample->labels, *end = label ? label + sample->n_labels : label;
  *known = (known_labels){0};
  for (; label != end; label++, out++) {
    const nf_label_row *row = nf_label_finder_guess(finder, label);
    if (__builtin_expect(!row, 0)) {
      known->hidden_units |= nf_label_hides_unit(label);
      *out = nf_labels_find(labels, strings, label);
      if (*out == NF_ID_NONE) {
        known->missing++;
        continue;
      }
      row = finder.rows + *out;
    }
    *out = (uint32_t)(row - finder.rows);
    uint64_t bit = UINT64_C(1) << (row->key & 63);
    known->repeated |= (known->keys & bit) != 0;
    known->keys |= bit;
  }
  ids->used = sample->n_labels * sizeof(uint32_t);
  return true;
}

/* Writes the label set: ids, sorted, as varints. */
static bool write_label_set(nf_profile *profile) {
  nf_array *set = &profile->scratch.label_set, *ids = &profile->scratch.label_ids;
  uint32_t *id = NF_ROWS(*ids, uint32_t);
  size_t n = NF_ROW_COUNT(*ids, uint32_t);
  set->used = 0;
  if (!nf_array_reserve(set, &profile->own, n * NF_VARINT32_MAX + 1)) return false;
  nf_labels_sort(id, n);
  uint8_t *out = set->data;
  for (size_t i = 0; i < n; i++) out = nf_varint_put32(out, id[i]);
  set->used = (size_t)(out - set->data);
  return true;
}

/* ---- checks ---- */

static bool check_counts(const nf_sample *sample, nf_error *error) {
  if (sample->n_locations > NF_MAX_FRAMES_PER_SAMPLE)
    return nf_error_set(error, "a stack of %zu frames is deeper than the limit of %zu", sample->n_locations,
                        NF_MAX_FRAMES_PER_SAMPLE);
  if (sample->n_labels > NF_MAX_LABELS_PER_SAMPLE)
    return nf_error_set(error, "%zu labels are more than the limit of %zu", sample->n_labels,
                        NF_MAX_LABELS_PER_SAMPLE);
  if ((sample->n_locations && !sample->locations) || (sample->n_labels && !sample->labels) ||
      (sample->n_values && !sample->values))
    return nf_error_set(error, "a slice of the sample has a length, but its pointer is null");
  return true;
}

static bool check_string(nf_str s, news *new, nf_error *error) {
  if (!s.len) return true;
  if (!s.ptr) return nf_error_set(error, "a text has %zu bytes, but its pointer is null", s.len);
  if (s.len > NF_MAX_STRING_BYTES)
    return nf_error_set(error, "a text of %zu bytes is longer than the limit of %zu", s.len,
                        NF_MAX_STRING_BYTES);
  new->strings++;
  new->string_bytes += s.len;
  return nf_utf8_check(s.ptr, s.len, error);
}

/* The texts of what is new; those of the rest were checked when they were. */
static bool check_new_frames(nf_profile *profile, const nf_sample *sample, news *new, nf_error *error) {
  const uint8_t *known = profile->scratch.stack.data;
  for (size_t i = 0; i < sample->n_locations; i++) {
    const nf_location *frame = &sample->locations[i];
    uint32_t id;
    known = nf_varint_get32(known, &id);
    if (id) continue;
    new->wide_frames += nf_location_needs_wide(frame);
    if (!check_string(frame->mapping.filename, new, error) ||
        !check_string(frame->mapping.build_id, new, error) ||
        !check_string(frame->function.name, new, error) ||
        !check_string(frame->function.system_name, new, error) ||
        !check_string(frame->function.filename, new, error))
      return false;
  }
  return true;
}

static bool check_new_labels(nf_profile *profile, const nf_sample *sample, news *new, nf_error *error) {
  const uint32_t *ids = NF_ROWS(profile->scratch.label_ids, uint32_t);
  for (size_t i = 0; i < sample->n_labels; i++) {
    const nf_label *label = &sample->labels[i];
    if (ids[i] == NF_ID_NONE &&
        !(check_string(label->key, new, error) && check_string(label->str, new, error)))
      return false;
    if ((ids[i] == NF_ID_NONE || nf_label_hides_unit(label)) && !check_string(label->num_unit, new, error))
      return false;
  }
  return true;
}

/* ---- adding ---- */

/* The bytes that a sample can have at most when it is encoded. */
static uint64_t encoded_bound(const nf_profile *profile, size_t n_labels) {
  return 64 + profile->scratch.stack.used + (uint64_t)profile->n_types * NF_VARINT_MAX +
         ((uint64_t)n_labels + 2) * 40;
}

/* From here on nothing can fail. The order in which labels and strings get their ids is part of what we promise. */
static void intern_labels(nf_profile *profile, const nf_sample *sample) {
  uint32_t *ids = NF_ROWS(profile->scratch.label_ids, uint32_t);
  for (size_t i = 0; i < sample->n_labels; i++)
    if (ids[i] == NF_ID_NONE)
      ids[i] = nf_labels_intern(&profile->store.labels, &profile->store.strings, &sample->labels[i]);
}

static void intern_frames(nf_profile *profile, const nf_sample *sample) {
  nf_array known_stack = profile->scratch.stack;
  profile->scratch.stack = profile->scratch.known_stack;
  profile->scratch.known_stack = known_stack;
  const uint8_t *known = known_stack.data;
  uint8_t *out = profile->scratch.stack.data;
  for (size_t i = 0; i < sample->n_locations; i++) {
    uint32_t id;
    known = nf_varint_get32(known, &id);
    if (!id)
      id = nf_locations_intern(&profile->store.locations, &profile->store.strings, &sample->locations[i]);
    out = nf_varint_put32(out, id);
  }
  profile->scratch.stack.used = (size_t)(out - profile->scratch.stack.data);
}

/* All that adding the sample can take at most, when something in it is new. */
static bool reserve_news(nf_profile *profile, const nf_sample *sample, const news *new) {
  nf_store *store = &profile->store;
  nf_account *account = &store->account;
  size_t stack_bytes = sample->n_locations * NF_VARINT32_MAX, set_bytes = sample->n_labels * NF_VARINT32_MAX;
  profile->scratch.label_set.used = profile->scratch.known_stack.used = 0;
  return nf_array_reserve(&profile->scratch.label_set, &profile->own, set_bytes + 1) &&
         nf_array_reserve(&profile->scratch.known_stack, &profile->own, stack_bytes + 1) &&
         nf_bytes_table_reserve(&store->strings, account, new->strings, new->string_bytes) &&
         nf_locations_reserve(&store->locations, account, new->frames, new->wide_frames) &&
         nf_labels_reserve(&store->labels, account, new->labels) &&
         nf_bytes_table_reserve(&store->stacks, account, 1, stack_bytes) &&
         nf_bytes_table_reserve(&store->labels.sets, account, 1, set_bytes) &&
         (sample->timestamp ? nf_timeline_reserve(&store->timeline, account)
                            : nf_samples_reserve(&store->samples, account));
}

static bool refuse(nf_store *store, nf_error *error) {
  store->refused += store->account.exhausted;
  return nf_store_refuse(store, error);
}

/* A stack or a label set, as bytes in a table. */
typedef struct key {
  nf_bytes_table *table;
  const nf_array *bytes;
  uint64_t hash;
  uint32_t id; /* NF_ID_NONE: not there */
} key;

NF_INLINE key find_key(nf_bytes_table *table, const nf_array *bytes) {
  uint64_t hash = nf_hash_bytes(bytes->data, bytes->used);
  return (key){table, bytes, hash, nf_bytes_table_find(table, bytes->data, bytes->used, hash)};
}

static bool reserve_key(const key *k, nf_account *account) {
  return k->id != NF_ID_NONE || nf_bytes_table_reserve(k->table, account, 1, k->bytes->used);
}

static uint32_t insert_key(const key *k) {
  return k->id != NF_ID_NONE ? k->id
                             : nf_bytes_table_insert(k->table, k->bytes->data, k->bytes->used, k->hash);
}

/* Adds the row, or adds to it. Frames and labels have their ids. */
static bool add_row(nf_profile *profile, const nf_sample *sample, nf_error *error) {
  nf_store *store = &profile->store;
  nf_account *account = &store->account;
  key stack = find_key(&store->stacks, &profile->scratch.stack);
  key labels = find_key(&store->labels.sets, &profile->scratch.label_set);
  account->exhausted = false;
  if (!sample->timestamp) {
    uint32_t id = stack.id == NF_ID_NONE || labels.id == NF_ID_NONE
                      ? NF_ID_NONE
                      : nf_samples_find(&store->samples, stack.id, labels.id);
    if (id != NF_ID_NONE)
      return nf_samples_accumulate(&store->samples, account, id, sample->values) ||
             nf_error_set_no_memory(error);
    if (!reserve_key(&stack, account) || !reserve_key(&labels, account) ||
        !nf_samples_reserve(&store->samples, account))
      return refuse(store, error);
    nf_samples_insert(&store->samples, insert_key(&stack), insert_key(&labels), sample->values);
  } else {
    if (!reserve_key(&stack, account) || !reserve_key(&labels, account) ||
        !nf_timeline_reserve(&store->timeline, account))
      return refuse(store, error);
    nf_timeline_append(&store->timeline, insert_key(&stack), insert_key(&labels), sample->timestamp,
                       sample->values);
  }
  store->encoded_bound += encoded_bound(profile, sample->n_labels);
  if (sample->n_labels > store->most_labels) store->most_labels = sample->n_labels;
  return true;
}

bool nf_profile_add(nf_profile *profile, const nf_sample *sample, nf_error *error) {
  nf_store *store = &profile->store;
  news new = {0};
  if (!check_counts(sample, error)) return false;
  known_labels known;
  if (!find_frames(profile, sample, &new.frames) || !find_labels(profile, sample, &known))
    return nf_error_set_no_memory(error);
  new.labels = known.missing;
  if ((new.frames && !check_new_frames(profile, sample, &new, error)) ||
      ((new.labels || known.hidden_units) && !check_new_labels(profile, sample, &new, error)))
    return false;
  if (sample->n_values != profile->n_types)
    return nf_error_set(error, "expected %u sample types, but sample had %zu sample types", profile->n_types,
                        sample->n_values);
  /* Labels that were added before are good each; with a new one, all are checked one after the other. */
  bool check = new.labels != 0;
  if (known.repeated && !check)
    check =
        sample->n_labels > FEW_LABELS ||
        nf_labels_repeat_key(&store->labels, NF_ROWS(profile->scratch.label_ids, uint32_t), sample->n_labels);
  if (check && !nf_labels_check(sample->labels, sample->n_labels, error)) return false;
  if (new.frames || new.labels) {
    store->account.exhausted = false;
    if (!reserve_news(profile, sample, &new)) return refuse(store, error);
    if (new.labels) intern_labels(profile, sample);
    if (new.frames) intern_frames(profile, sample);
  }
  if (!write_label_set(profile)) return nf_error_set_no_memory(error);
  return add_row(profile, sample, error);
}
