/* The life of a profile, and everything that is added to it but samples. */
#include "core/profile.h"

#include "core/limits.h"
#include "core/utf8.h"

/* ---- the store ---- */

bool nf_store_init(nf_store *store, const nf_profile *profile, size_t budget) {
  *store = (nf_store){.account = {.budget = SIZE_MAX}};
  nf_samples_init(&store->samples, profile->n_types);
  nf_endpoints_init(&store->endpoints);
  nf_upscaling_init(&store->upscaling);
  const nf_bytes_table *first = &profile->first_strings;
  uint32_t count = nf_bytes_table_count(first);
  nf_account *account = &store->account;
  bool ok = nf_bytes_table_init(&store->strings, account) && nf_bytes_table_init(&store->stacks, account) &&
            nf_locations_init(&store->locations, account) && nf_labels_init(&store->labels, account) &&
            nf_timeline_init(&store->timeline, account, profile->n_types) &&
            nf_bytes_table_reserve(&store->strings, account, count, first->bytes.used) &&
            (store->endpoint_stats = nf_endpoint_stats_new());
  if (!ok) {
    nf_store_deinit(store);
    return false;
  }
  for (uint32_t id = 0; id < count; id++) {
    nf_bytes string = nf_bytes_table_get(first, id);
    nf_bytes_table_intern(&store->strings, string.ptr, string.len);
  }
  account->budget = budget;
  return true;
}

void nf_store_deinit(nf_store *store) {
  nf_account *account = &store->account;
  nf_bytes_table_deinit(&store->strings, account);
  nf_locations_deinit(&store->locations, account);
  nf_labels_deinit(&store->labels, account);
  nf_bytes_table_deinit(&store->stacks, account);
  nf_samples_deinit(&store->samples, account);
  nf_timeline_deinit(&store->timeline, account);
  nf_endpoints_deinit(&store->endpoints, account);
  nf_upscaling_deinit(&store->upscaling, account);
  nf_endpoint_stats_drop(store->endpoint_stats);
  store->endpoint_stats = NULL;
}

bool nf_store_refuse(const nf_store *store, nf_error *error) {
  if (!store->account.exhausted) return nf_error_set_no_memory(error);
  return nf_error_set(error, "the profile's budget of %zu bytes is used up", store->account.budget);
}

/* ---- life ---- */

static bool intern_first(nf_profile *profile, nf_str s, uint32_t *id) {
  nf_utf8_fault fault;
  if (!s.ptr || s.len > NF_MAX_STRING_BYTES || !nf_utf8_valid(s.ptr, s.len, &fault)) s.len = 0;
  if (!nf_bytes_table_reserve(&profile->first_strings, &profile->own, 1, s.len)) return false;
  *id = nf_bytes_table_intern(&profile->first_strings, s.ptr, s.len);
  return true;
}

static bool intern_type(nf_profile *profile, const nf_value_type *type, nf_value_type_ids *ids) {
  return intern_first(profile, type->type, &ids->type) && intern_first(profile, type->unit, &ids->unit);
}

static bool set_up(nf_profile *profile, const nf_value_type *types, const nf_value_type *period_type) {
#define LITERAL(s) ((nf_str){s, sizeof s - 1})
  const nf_str known[] = {LITERAL(""), LITERAL(NF_LOCAL_ROOT_SPAN_ID), LITERAL(NF_TRACE_ENDPOINT),
                          LITERAL(NF_END_TIMESTAMP_NS)};
  uint32_t id;
  profile->types = nf_alloc_zeroed(profile->n_types * sizeof *profile->types);
  if (!profile->types || !nf_bytes_table_init(&profile->first_strings, &profile->own)) return false;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!intern_first(profile, known[i], &id)) return false;
  for (uint32_t i = 0; i < profile->n_types; i++)
    if (!intern_type(profile, &types[i], &profile->types[i])) return false;
  if (profile->has_period && !intern_type(profile, period_type, &profile->period_type)) return false;
  return nf_store_init(&profile->store, profile, NF_DEFAULT_BUDGET);
}

nf_profile *nf_profile_new(const nf_value_type *types, size_t n_types, const nf_value_type *period_type,
                           int64_t period, nf_moment start, nf_error *error) {
  if (n_types > NF_MAX_SAMPLE_TYPES) {
    nf_error_set(error, "%zu sample types are more than the limit of %d", n_types, NF_MAX_SAMPLE_TYPES);
    return NULL;
  }
  nf_profile *profile = nf_alloc_zeroed(sizeof *profile);
  if (!profile) {
    nf_error_set_no_memory(error);
    return NULL;
  }
  profile->write_stack = nf_write_stack;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) profile->write_stack = nf_write_stack_avx2;
#endif
  profile->own.budget = SIZE_MAX;
  profile->n_types = (uint32_t)n_types;
  profile->has_period = period_type != NULL;
  profile->period = period_type ? period : 0;
  profile->start = start;
  if (set_up(profile, types, period_type)) {
    nf_bytes_table_drop_index(&profile->first_strings, &profile->own);
    return profile;
  }
  nf_error_set_no_memory(error);
  nf_profile_drop(profile);
  return NULL;
}

void nf_profile_drop(nf_profile *profile) {
  if (!profile) return;
  nf_store_deinit(&profile->store);
  nf_array_deinit(&profile->scratch.stack, &profile->own);
  nf_array_deinit(&profile->scratch.known_stack, &profile->own);
  nf_array_deinit(&profile->scratch.label_ids, &profile->own);
  nf_array_deinit(&profile->scratch.label_set, &profile->own);
  nf_bytes_table_deinit(&profile->first_strings, &profile->own);
  nf_free(profile->types);
  nf_free(profile);
}

bool nf_profile_reset(nf_profile *profile, nf_moment start, nf_error *error) {
  nf_store fresh;
  if (!nf_store_init(&fresh, profile, profile->store.account.budget)) return nf_error_set_no_memory(error);
  nf_store_deinit(&profile->store);
  profile->store = fresh;
  profile->start = start;
  return true;
}

void nf_profile_set_budget(nf_profile *profile, size_t bytes) {
  profile->store.account.budget = bytes ? bytes : SIZE_MAX;
}

size_t nf_profile_held(const nf_profile *profile) {
  return sizeof *profile + profile->n_types * sizeof *profile->types + profile->own.held +
         profile->store.account.held + nf_endpoint_stats_held(profile->store.endpoint_stats);
}

/* ---- endpoints and rules ---- */

/* A text that may need replacing to be UTF-8. */
typedef struct lossy {
  nf_str text;
  char *owned;
} lossy;

static bool lossy_init(lossy *l, nf_str s, nf_error *error) {
  *l = (lossy){.text = s};
  nf_utf8_fault fault;
  if (!s.ptr) l->text.len = 0;
  if (s.ptr && s.len > NF_MAX_STRING_BYTES)
    return nf_error_set(error, "a text of %zu bytes is longer than the limit of %zu", s.len,
                        NF_MAX_STRING_BYTES);
  if (!s.ptr || nf_utf8_valid(s.ptr, s.len, &fault)) return true;
  size_t size = nf_utf8_lossy_size(s.ptr, s.len);
  l->owned = nf_alloc(size);
  if (!l->owned) return nf_error_set_no_memory(error);
  nf_utf8_lossy(s.ptr, s.len, l->owned);
  l->text = (nf_str){l->owned, size};
  return true;
}

static void lossy_deinit(lossy *l) { nf_free(l->owned); }

bool nf_profile_set_endpoint(nf_profile *profile, uint64_t local_root_span_id, nf_str name, nf_error *error) {
  nf_store *store = &profile->store;
  lossy l;
  if (!lossy_init(&l, name, error)) return false;
  bool ok = nf_bytes_table_reserve(&store->strings, &store->account, 1, l.text.len) &&
            nf_endpoints_reserve(&store->endpoints, &store->account);
  if (ok)
    nf_endpoints_set(&store->endpoints, local_root_span_id,
                     nf_bytes_table_intern(&store->strings, l.text.ptr, l.text.len));
  else
    nf_store_refuse(store, error);
  lossy_deinit(&l);
  return ok;
}

bool nf_profile_add_endpoint_count(nf_profile *profile, nf_str name, int64_t value, nf_error *error) {
  nf_store *store = &profile->store;
  lossy l;
  if (!lossy_init(&l, name, error)) return false;
  /* Counts may grow as large as the rest, but not without bound. */
  bool ok = nf_endpoint_stats_add(store->endpoint_stats, l.text.ptr, l.text.len, value, store->account.budget,
                                  &store->account.exhausted);
  lossy_deinit(&l);
  return ok || nf_store_refuse(store, error);
}

static bool add_rule(nf_profile *profile, const size_t *offsets, size_t n_offsets, nf_str name, nf_str value,
                     const nf_upscaling_info *info, nf_error *error) {
  nf_store *store = &profile->store;
  lossy n, v;
  if (!lossy_init(&n, name, error)) return false;
  if (!lossy_init(&v, value, error)) {
    lossy_deinit(&n);
    return false;
  }
  bool ok = nf_bytes_table_reserve(&store->strings, &store->account, 2, n.text.len + v.text.len) &&
            nf_upscaling_reserve(&store->upscaling, &store->account, n_offsets);
  if (ok) {
    uint32_t name_id = nf_bytes_table_intern(&store->strings, n.text.ptr, n.text.len);
    uint32_t value_id = nf_bytes_table_intern(&store->strings, v.text.ptr, v.text.len);
    ok = nf_upscaling_add(&store->upscaling, &store->strings, name_id, value_id, info, offsets, n_offsets,
                          profile->n_types, error);
  } else
    nf_store_refuse(store, error);
  lossy_deinit(&n);
  lossy_deinit(&v);
  return ok;
}

bool nf_profile_add_upscaling_poisson(nf_profile *profile, const size_t *offsets, size_t n_offsets,
                                      nf_str name, nf_str value, size_t sum_offset, size_t count_offset,
                                      uint64_t distance, nf_error *error) {
  nf_upscaling_info info = {
      .poisson = true, .sum_offset = sum_offset, .count_offset = count_offset, .distance = distance};
  return nf_upscaling_check(&info, 0, 0, error) &&
         add_rule(profile, offsets, n_offsets, name, value, &info, error);
}

bool nf_profile_add_upscaling_proportional(nf_profile *profile, const size_t *offsets, size_t n_offsets,
                                           nf_str name, nf_str value, uint64_t total_sampled,
                                           uint64_t total_real, nf_error *error) {
  nf_upscaling_info info = {.scale = (double)total_real / (double)total_sampled};
  return nf_upscaling_check(&info, total_sampled, total_real, error) &&
         add_rule(profile, offsets, n_offsets, name, value, &info, error);
}
