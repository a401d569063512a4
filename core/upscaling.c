#include "core/upscaling.h"

#include "core/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NO_RULE UINT32_MAX

void nf_upscaling_init(nf_upscaling *upscaling) {
  *upscaling = (nf_upscaling){.rules = NF_ARRAY_EMPTY, .offsets = NF_ARRAY_EMPTY};
  nf_id_table_init(&upscaling->index);
}

void nf_upscaling_deinit(nf_upscaling *upscaling, nf_account *account) {
  nf_array_deinit(&upscaling->rules, account);
  nf_array_deinit(&upscaling->offsets, account);
  nf_id_table_deinit(&upscaling->index, account);
}

static nf_upscaling_rule *rule_at(const nf_upscaling *upscaling, uint32_t index) {
  return NF_ROWS(upscaling->rules, nf_upscaling_rule) + index;
}

static uint32_t rule_count(const nf_upscaling *upscaling) {
  return (uint32_t)NF_ROW_COUNT(upscaling->rules, nf_upscaling_rule);
}

static const uint32_t *offsets_of(const nf_upscaling *upscaling, const nf_upscaling_rule *rule) {
  return NF_ROWS(upscaling->offsets, uint32_t) + rule->offsets;
}

static uint64_t hash_of(const void *owner, uint32_t index) {
  const nf_upscaling_rule *rule = rule_at(owner, index);
  return nf_hash_pair(rule->name, rule->value);
}

static uint32_t first_rule(const nf_upscaling *upscaling, uint32_t name, uint32_t value) {
  nf_id_probe probe = nf_id_table_probe(&upscaling->index, nf_hash_pair(name, value));
  for (uint32_t index; nf_id_probe_next(&probe, &index);) {
    const nf_upscaling_rule *rule = rule_at(upscaling, index);
    if (rule->name == name && rule->value == value) return index;
  }
  return NO_RULE;
}

static bool is_by_value(uint32_t name, uint32_t value) { return name == 0 && value == 0; }

/* ---- rules as text, for messages ---- */

/* A buffer that is written twice: once to count, once to fill in. */
typedef struct text {
  char *out;
  size_t size, len;
} text;

static void put(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int len = vsnprintf(t->out ? t->out + t->len : NULL, t->out ? t->size - t->len : 0, format, args);
  va_end(args);
  if (len > 0) t->len += (size_t)len;
}

static void put_bytes(text *t, nf_bytes bytes) { /* may hold NULs */
  if (t->out && bytes.len) memcpy(t->out + t->len, bytes.ptr, bytes.len);
  t->len += bytes.len;
}

/* A double as "d.ddde<exponent>": its digits, without whatever the locale puts between them, and the exponent. */
typedef struct decimal {
  char digits[800]; /* enough for the exact value of any double */
  int count, exponent;
} decimal;

static bool to_decimal(decimal *d, double value, int precision) {
  char text[sizeof d->digits + 16];
  snprintf(text, sizeof text, "%.*e", precision, value);
  d->count = 0;
  const char *p = text;
  for (; *p && *p != 'e'; p++)
    if (*p >= '0' && *p <= '9') d->digits[d->count++] = *p;
  d->exponent = (int)strtol(p + 1, NULL, 10);
  return strtod(text, NULL) == value;
}

/* Rounds the last digit up where the value lies in the very middle (printf rounds to even there). */
static void round_tie_up(decimal *d, double value) {
  if (d->count < 15) return; /* the middle has one digit more, and so few are exact anyway */
  decimal exact;
  to_decimal(&exact, value, 770);
  int next = d->count;
  if (memcmp(d->digits, exact.digits, (size_t)next) != 0 || exact.digits[next] != '5') return;
  for (int i = next + 1; i < exact.count; i++)
    if (exact.digits[i] != '0') return;
  if (d->digits[next - 1] < '9') d->digits[next - 1]++;
}

/* The shortest decimal that reads back as this double; in exponent form where it would be long. Finite and not negative. */
static void put_double(text *t, double value) {
  decimal d;
  int precision = 0;
  while (!to_decimal(&d, value, precision) && precision < 17) precision++;
  round_tie_up(&d, value);
  if (value != 0 && (d.exponent >= 16 || d.exponent < -4)) {
    put(t, "%c", d.digits[0]);
    if (d.count > 1) put(t, ".%.*s", d.count - 1, d.digits + 1);
    put(t, "e%d", d.exponent);
    return;
  }
  if (d.exponent < 0) put(t, "0");
  for (int i = 0; i <= d.exponent; i++) put(t, "%c", i < d.count ? d.digits[i] : '0');
  put(t, ".");
  for (int i = d.exponent + 1; i < 0; i++) put(t, "0");
  int from = d.exponent < 0 ? 0 : d.exponent + 1;
  put(t, "%.*s", d.count > from ? d.count - from : 1, d.count > from ? d.digits + from : "0");
}

static void put_info(text *t, const nf_upscaling_info *info) {
  if (info->poisson) {
    put(t, "Poisson { sum_value_offset: %zu, count_value_offset: %zu, sampling_distance: %llu }",
        info->sum_offset, info->count_offset, (unsigned long long)info->distance);
    return;
  }
  put(t, "Proportional { scale: ");
  put_double(t, info->scale);
  put(t, " }");
}

static void put_offsets(text *t, const uint32_t *offsets, size_t n) {
  put(t, "[");
  for (size_t i = 0; i < n; i++) put(t, i ? ", %u" : "%u", offsets[i]);
  put(t, "]");
}

static void put_existing(text *t, const nf_upscaling *upscaling, const nf_upscaling_rule *rule) {
  put(t, "Some(UpscalingRule { upscaling_info: ");
  put_info(t, &rule->info);
  put(t, ", values_offset: ");
  put_offsets(t, offsets_of(upscaling, rule), rule->n_offsets);
  put(t, " })");
}

/* ---- adding ---- */

typedef struct newcomer {
  const nf_upscaling *upscaling;
  nf_bytes name, value;
  const nf_upscaling_info *info;
  const uint32_t *offsets;
  size_t n_offsets;
} newcomer;

static void duplicate_text(text *t, const newcomer *new, const nf_upscaling_rule *existing, uint32_t offset) {
  (void)offset;
  put(t, "There are duplicated by-label rules for the same label name: ");
  put_bytes(t, new->name);
  put(t, " with at least one value offset in common.\nExisting rule ");
  put_existing(t, new->upscaling, existing);
  put(t, "\nNew rule ");
  put_bytes(t, new->name);
  put(t, " ");
  put_bytes(t, new->value);
  put(t, " ");
  put_offsets(t, new->offsets, new->n_offsets);
  put(t, " ");
  put_info(t, new->info);
}

static void by_value_text(text *t, const newcomer *new, const nf_upscaling_rule *existing, uint32_t offset) {
  (void)existing;
  put(t, "The by-value rule is colliding with at least one by-label rule at offset Some(%u)\n", offset);
  put(t, "by-value rule values offset(s) ");
  put_offsets(t, new->offsets, new->n_offsets);
}

static void by_label_text(text *t, const newcomer *new, const nf_upscaling_rule *existing, uint32_t offset) {
  (void)offset;
  put(t, "The by-label rule (label name ");
  put_bytes(t, new->name);
  put(t, ", label value ");
  put_bytes(t, new->value);
  put(t, ") is colliding with a by-value rule on values offsets\nExisting values offset(s) ");
  put_existing(t, new->upscaling, existing);
  put(t, ", new rule values offset(s) ");
  put_offsets(t, new->offsets, new->n_offsets);
}

static bool refuse(nf_error *error,
                   void (*write)(text *, const newcomer *, const nf_upscaling_rule *, uint32_t),
                   const newcomer *new, const nf_upscaling_rule *existing, uint32_t offset) {
  text t = {0};
  write(&t, new, existing, offset);
  t.size = t.len + 1;
  t.out = nf_alloc(t.size);
  if (!t.out) return nf_error_set_no_memory(error);
  t.len = 0;
  write(&t, new, existing, offset);
  nf_error_set_text(error, t.out, t.len);
  nf_free(t.out);
  return false;
}

/* The first offset of a sorted list that a rule has too. */
static bool shared_offset(const nf_upscaling *upscaling, const nf_upscaling_rule *rule, const newcomer *new,
                          uint32_t *shared) {
  const uint32_t *have = offsets_of(upscaling, rule);
  for (size_t i = 0, k = 0; i < new->n_offsets &&k < rule->n_offsets;) {
    if (new->offsets[i] == have[k]) {
      *shared = new->offsets[i];
      return true;
    }
    if (new->offsets[i] < have[k])
      i++;
    else
      k++;
  }
  return false;
}

static bool check_collisions(const newcomer *new, uint32_t name, uint32_t value, nf_error *error) {
  const nf_upscaling *upscaling = new->upscaling;
  uint32_t shared;
  for (uint32_t at = first_rule(upscaling, name, value); at != NO_RULE; at = rule_at(upscaling, at)->next - 1)
    if (shared_offset(upscaling, rule_at(upscaling, at), new, &shared))
      return refuse(error, duplicate_text, new, rule_at(upscaling, at), shared);
  if (!is_by_value(name, value)) {
    for (uint32_t at = first_rule(upscaling, 0, 0); at != NO_RULE; at = rule_at(upscaling, at)->next - 1)
      if (shared_offset(upscaling, rule_at(upscaling, at), new, &shared))
        return refuse(error, by_label_text, new, rule_at(upscaling, at), shared);
    return true;
  }
  uint32_t lowest = UINT32_MAX;
  for (uint32_t at = 0; at < rule_count(upscaling); at++)
    if (shared_offset(upscaling, rule_at(upscaling, at), new, &shared) && shared < lowest) lowest = shared;
  return lowest == UINT32_MAX || refuse(error, by_value_text, new, NULL, lowest);
}

bool nf_upscaling_check(const nf_upscaling_info *info, uint64_t total_sampled, uint64_t total_real,
                        nf_error *error) {
  if (info->poisson && info->distance == 0)
    return nf_error_set(error,
                        "ddog_prof_Profile_add_upscaling_rule_poisson sampling_distance parameter must be "
                        "greater than 0");
  if (!info->poisson && (total_sampled == 0 || total_real == 0))
    return nf_error_set(error, "total_sampled and total_real parameters must not be equal to 0");
  return true;
}

static void sort(uint32_t *offsets, size_t n, size_t n_values) {
  /* Offsets are few and below n_values: counted, not compared. */
  size_t at = 0;
  uint32_t counts[1024 + 1] = {0};
  for (size_t i = 0; i < n; i++) counts[offsets[i]]++;
  for (uint32_t offset = 0; offset < n_values; offset++)
    for (uint32_t k = 0; k < counts[offset]; k++) offsets[at++] = offset;
}

bool nf_upscaling_reserve(nf_upscaling *upscaling, nf_account *account, size_t n_offsets) {
  account->exhausted = false;
  return n_offsets <= UINT32_MAX && rule_count(upscaling) < NF_ID_LIMIT &&
         nf_array_reserve(&upscaling->rules, account, sizeof(nf_upscaling_rule)) &&
         nf_array_reserve(&upscaling->offsets, account, n_offsets * sizeof(uint32_t)) &&
         nf_id_table_reserve(&upscaling->index, account, 1, hash_of, upscaling);
}

bool nf_upscaling_add(nf_upscaling *upscaling, const nf_bytes_table *strings, uint32_t name, uint32_t value,
                      const nf_upscaling_info *info, const size_t *offsets, size_t n_offsets, size_t n_values,
                      nf_error *error) {
  for (size_t i = 0; i < n_offsets; i++)
    if (offsets[i] >= n_values)
      return nf_error_set(error, "Invalid offset. Highest expected offset: %zu", n_values);
  /* The list is sorted where it will stay; until the rule is accepted it is not counted as used. */
  uint32_t *sorted = NF_ROWS(upscaling->offsets, uint32_t) + NF_ROW_COUNT(upscaling->offsets, uint32_t);
  for (size_t i = 0; i < n_offsets; i++) sorted[i] = (uint32_t)offsets[i];
  if (n_offsets) sort(sorted, n_offsets, n_values);

  newcomer new = {
      upscaling, nf_bytes_table_get(strings, name), nf_bytes_table_get(strings, value), info, sorted,
      n_offsets};
  if (!check_collisions(&new, name, value, error)) return false;
  if (info->poisson && (info->sum_offset >= n_values || info->count_offset >= n_values))
    return nf_error_set(error,
                        "sum_value_offset %zu and count_value_offset %zu must be strictly less than %zu",
                        info->sum_offset, info->count_offset, n_values);
  if (n_offsets == 0) return true; /* changes nothing, collides with nothing */

  nf_upscaling_rule rule = {
      name, value, *info, 0, (uint32_t)n_offsets, NF_ROW_COUNT(upscaling->offsets, uint32_t)};
  uint32_t index = rule_count(upscaling), last = first_rule(upscaling, name, value);
  nf_array_append(&upscaling->rules, &rule, sizeof rule);
  upscaling->offsets.used += n_offsets * sizeof(uint32_t);
  if (last == NO_RULE) {
    nf_id_table_insert(&upscaling->index, nf_hash_pair(name, value), index);
  } else {
    while (rule_at(upscaling, last)->next) last = rule_at(upscaling, last)->next - 1;
    rule_at(upscaling, last)->next = index + 1;
  }
  return true;
}

/* ---- applying ---- */

static double scale_of(const nf_upscaling_info *info, const int64_t *values) {
  if (!info->poisson) return info->scale;
  int64_t sum = values[info->sum_offset], count = values[info->count_offset];
  if (sum == 0 || count == 0) return 1;
  double average = (double)sum / (double)count;
  return 1 / (1 - exp(-average / (double)info->distance));
}

static int64_t scaled(int64_t value, double scale) {
  double result = round((double)value * scale);
  if (isnan(result)) return 0;
  if (result >= 0x1p63) return INT64_MAX;
  if (result < -0x1p63) return INT64_MIN;
  return (int64_t)result;
}

void nf_upscaling_apply(const nf_upscaling *upscaling, uint32_t name, uint32_t value, int64_t *values) {
  for (uint32_t at = first_rule(upscaling, name, value); at != NO_RULE;
       at = rule_at(upscaling, at)->next - 1) {
    const nf_upscaling_rule *rule = rule_at(upscaling, at);
    const uint32_t *offsets = offsets_of(upscaling, rule);
    double scale = scale_of(&rule->info, values);
    for (uint32_t i = 0; i < rule->n_offsets; i++)
      if (i == 0 || offsets[i] != offsets[i - 1]) values[offsets[i]] = scaled(values[offsets[i]], scale);
  }
}
