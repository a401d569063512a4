#include "core/samples.h"

#include "core/hash.h"
#include "core/varint.h"

static bool keeps_all(const nf_samples *samples) { return samples->n_values > NF_SAMPLE_COLUMNS_MOST; }

static nf_sample_row *row_at(const nf_samples *samples, uint32_t id) {
  return NF_ROWS(samples->rows, nf_sample_row) + id;
}

static int64_t *slots_of(const nf_samples *samples, const nf_sample_row *row) {
  return NF_ROWS(samples->slots, int64_t) + row->slot;
}

void nf_samples_init(nf_samples *samples, uint32_t n_values) {
  *samples = (nf_samples){.rows = NF_ARRAY_EMPTY, .slots = NF_ARRAY_EMPTY, .n_values = n_values};
  nf_id_table_init(&samples->index);
}

void nf_samples_drop_index(nf_samples *samples, nf_account *account) {
  nf_id_table_deinit(&samples->index, account);
}

void nf_samples_deinit(nf_samples *samples, nf_account *account) {
  nf_samples_drop_index(samples, account);
  nf_array_deinit(&samples->rows, account);
  nf_array_deinit(&samples->slots, account);
}

static uint64_t hash_pair(uint32_t stack, uint32_t labels) {
  return nf_hash_mix(((uint64_t)stack << 32 | labels) ^ NF_HASH_K1, NF_HASH_K2);
}

static uint64_t hash_of(const void *owner, uint32_t id) {
  const nf_sample_row *row = row_at(owner, id);
  return hash_pair(row->stack, row->labels);
}

uint32_t nf_samples_find(const nf_samples *samples, uint32_t stack, uint32_t labels) {
  nf_id_probe probe = nf_id_table_probe(&samples->index, hash_pair(stack, labels));
  for (uint32_t id; nf_id_probe_next(&probe, &id);) {
    const nf_sample_row *row = row_at(samples, id);
    if (row->stack == stack && row->labels == labels) return id;
  }
  return NF_ID_NONE;
}

bool nf_samples_reserve(nf_samples *samples, nf_account *account) {
  account->exhausted = false;
  if (nf_samples_count(samples) >= NF_ID_LIMIT - 1 ||
      NF_ROW_COUNT(samples->slots, int64_t) >= UINT32_MAX - samples->n_values)
    return false;
  return nf_array_reserve(&samples->rows, account, sizeof(nf_sample_row)) &&
         nf_array_reserve(&samples->slots, account, samples->n_values * sizeof(int64_t)) &&
         nf_id_table_reserve(&samples->index, account, 1, hash_of, samples);
}

static uint32_t columns_of(const nf_samples *samples, const int64_t *values) {
  if (keeps_all(samples)) return 0;
  uint32_t columns = 0, i = samples->n_values;
#pragma GCC unroll 4
  while (i > 0) columns = columns << 1 | (values[--i] != 0);
  return columns;
}

static uint32_t bits(uint32_t columns) { return (uint32_t)__builtin_popcount(columns); }

static uint32_t run_length(const nf_samples *samples, uint32_t columns) {
  return keeps_all(samples) ? samples->n_values : bits(columns);
}

/* A run of slots, from those that rows left or from reserved room. */
static uint32_t take_run(nf_samples *samples, uint32_t length) {
  uint32_t *free_run = keeps_all(samples) || length == 0 ? NULL : &samples->free_runs[length];
  if (free_run && *free_run) {
    uint32_t slot = *free_run - 1;
    *free_run = (uint32_t)NF_ROWS(samples->slots, int64_t)[slot];
    return slot;
  }
  uint32_t slot = (uint32_t)NF_ROW_COUNT(samples->slots, int64_t);
  samples->slots.used += length * sizeof(int64_t);
  return slot;
}

static void leave_run(nf_samples *samples, uint32_t slot, uint32_t length) {
  if (length == 0) return;
  NF_ROWS(samples->slots, int64_t)[slot] = samples->free_runs[length];
  samples->free_runs[length] = slot + 1;
}

static void store(nf_samples *samples, const nf_sample_row *row, const int64_t *values) {
  int64_t *slot = slots_of(samples, row);
  if (keeps_all(samples)) {
    memcpy(slot, values, samples->n_values * sizeof *slot);
    return;
  }
  for (uint32_t columns = row->columns; columns; columns &= columns - 1)
    *slot++ = values[__builtin_ctz(columns)];
}

void nf_samples_insert(nf_samples *samples, uint32_t stack, uint32_t labels, const int64_t *values) {
  uint32_t id = nf_samples_count(samples), columns = columns_of(samples, values);
  nf_sample_row row = {stack, labels, columns, take_run(samples, run_length(samples, columns))};
  store(samples, &row, values);
  nf_array_append(&samples->rows, &row, sizeof row);
  nf_id_table_insert(&samples->index, hash_pair(stack, labels), id);
}

static inline int64_t wrapping_sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

static bool widen(nf_samples *samples, nf_account *account, nf_sample_row *row, uint32_t columns) {
  size_t budget = account->budget;
  account->budget = SIZE_MAX;
  bool ok = nf_array_reserve(&samples->slots, account, samples->n_values * sizeof(int64_t));
  account->budget = budget;
  if (!ok) return false;
  int64_t old[NF_SAMPLE_COLUMNS_MOST], *slot = slots_of(samples, row);
  uint32_t had = row->columns, n = bits(had);
  for (uint32_t i = 0; i < n; i++) old[i] = slot[i];
  leave_run(samples, row->slot, n);
  row->columns |= columns;
  row->slot = take_run(samples, bits(row->columns));
  slot = slots_of(samples, row);
  const int64_t *from = old;
  for (uint32_t left = row->columns; left; left &= left - 1) *slot++ = had & left & -left ? *from++ : 0;
  return true;
}

bool nf_samples_accumulate(nf_samples *samples, nf_account *account, uint32_t id, const int64_t *values) {
  nf_sample_row *row = row_at(samples, id);
  if (keeps_all(samples)) {
    int64_t *slot = slots_of(samples, row);
    for (uint32_t i = 0; i < samples->n_values; i++) slot[i] = wrapping_sum(slot[i], values[i]);
    return true;
  }
  uint32_t more = columns_of(samples, values) & ~row->columns;
  if (more && !widen(samples, account, row, more)) return false;
  int64_t *slot = slots_of(samples, row);
  for (uint32_t columns = row->columns; columns; columns &= columns - 1, slot++)
    *slot = wrapping_sum(*slot, values[__builtin_ctz(columns)]);
  return true;
}

void nf_samples_values(const nf_samples *samples, const nf_sample_row *row, int64_t *values) {
  const int64_t *slot = slots_of(samples, row);
  if (keeps_all(samples)) {
    memcpy(values, slot, samples->n_values * sizeof *slot);
    return;
  }
  memset(values, 0, samples->n_values * sizeof *values);
  for (uint32_t columns = row->columns; columns; columns &= columns - 1)
    values[__builtin_ctz(columns)] = *slot++;
}

uint8_t *nf_samples_put_values(const nf_samples *samples, const nf_sample_row *row, uint8_t *out) {
  const int64_t *slot = slots_of(samples, row);
  if (keeps_all(samples)) {
    for (uint32_t i = 0; i < samples->n_values; i++) out = nf_varint_put(out, (uint64_t)slot[i]);
    return out;
  }
  uint32_t columns = row->columns;
  for (uint32_t i = 0; i < samples->n_values; i++, columns >>= 1)
    if (columns & 1)
      out = nf_varint_put(out, (uint64_t)*slot++);
    else
      *out++ = 0;
  return out;
}
