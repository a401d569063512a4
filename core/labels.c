#include "core/labels.h"

/* Caches this many sets at most: what comes back soon are the labels of the threads and of their spans. */
#define RECENT_SETS_MOST (1u << 11)

bool nf_labels_init(nf_labels *labels, nf_account *account) {
  *labels = (nf_labels){0};
  nf_id_table_init(&labels->index);
  nf_recent_init(&labels->recent);
  return nf_bytes_table_init(&labels->sets, account);
}

void nf_labels_drop_indexes(nf_labels *labels, nf_account *account) {
  nf_id_table_deinit(&labels->index, account);
  nf_bytes_table_drop_index(&labels->sets, account);
  nf_recent_deinit(&labels->recent);
}

void nf_labels_deinit(nf_labels *labels, nf_account *account) {
  nf_labels_drop_indexes(labels, account);
  nf_array_deinit(&labels->rows, account);
  nf_bytes_table_deinit(&labels->sets, account);
}

static uint64_t hash_row(const nf_label_row *row) {
  return nf_hash_pair((uint64_t)row->key << 32 | row->text, (uint64_t)row->num);
}

static uint64_t hash_of(const void *owner, uint32_t id) { return hash_row(nf_labels_get(owner, id)); }

static uint32_t find_row(const nf_labels *labels, const nf_label_row *row) {
  nf_id_probe probe = nf_id_table_probe(&labels->index, hash_row(row));
  for (uint32_t id; nf_id_probe_next(&probe, &id);)
    if (memcmp(nf_labels_get(labels, id), row, sizeof *row) == 0) return id;
  return NF_ID_NONE;
}

static uint32_t find_string(const nf_bytes_table *strings, nf_str s) {
  if (!s.len) return NF_STRING_EMPTY;
  return s.ptr ? nf_bytes_table_find(strings, s.ptr, s.len, nf_hash_bytes(s.ptr, s.len)) : NF_ID_NONE;
}

static nf_label_row make_row(const nf_label *label, uint32_t key, uint32_t text) {
  if (label->str.len) return (nf_label_row){key, text, 0};
  return (nf_label_row){key | NF_LABEL_NUMERIC, text, label->num};
}

uint32_t nf_labels_find(nf_labels *labels, const nf_bytes_table *strings, const nf_label *label) {
  uint32_t key = find_string(strings, label->key);
  if (key == NF_ID_NONE) return NF_ID_NONE;
  uint32_t text = find_string(strings, *nf_label_text(label));
  if (text == NF_ID_NONE) return NF_ID_NONE;
  nf_label_row row = make_row(label, key, text);
  uint32_t id = find_row(labels, &row);
  if (id != NF_ID_NONE) nf_recent_remember(&labels->recent, nf_label_pointer_hash(label), id + 1);
  return id;
}

bool nf_labels_reserve(nf_labels *labels, nf_account *account, size_t more) {
  account->exhausted = false;
  if (more >= NF_ID_LIMIT - nf_labels_count(labels)) return false;
  bool ok = nf_array_reserve(&labels->rows, account, more * sizeof(nf_label_row)) &&
            nf_id_table_reserve(&labels->index, account, (uint32_t)more, hash_of, labels);
  if (ok) nf_recent_fit(&labels->recent, nf_labels_count(labels) + (uint32_t)more, RECENT_SETS_MOST);
  return ok;
}

static uint32_t intern_string(nf_bytes_table *strings, nf_str s) {
  return s.len ? nf_bytes_table_intern(strings, s.ptr, s.len) : NF_STRING_EMPTY;
}

uint32_t nf_labels_intern(nf_labels *labels, nf_bytes_table *strings, const nf_label *label) {
  uint32_t key = intern_string(strings, label->key);
  uint32_t text = intern_string(strings, *nf_label_text(label));
  nf_label_row row = make_row(label, key, text);
  uint32_t id = find_row(labels, &row);
  if (id == NF_ID_NONE) {
    id = nf_labels_count(labels);
    nf_array_append(&labels->rows, &row, sizeof row);
    nf_id_table_insert(&labels->index, hash_row(&row), id);
  }
  nf_recent_remember(&labels->recent, nf_label_pointer_hash(label), id + 1);
  return id;
}

/* Shell's sort: a handful of labels, mostly in order, is the common case; 2^20 of them must not take long either. */
static void sort_by_gap(uint32_t *ids, size_t n, size_t gap) {
  for (size_t i = gap; i < n; i++) {
    uint32_t id = ids[i];
    size_t k = i;
    for (; k >= gap && ids[k - gap] > id; k -= gap) ids[k] = ids[k - gap];
    ids[k] = id;
  }
}

void nf_labels_sort(uint32_t *ids, size_t n) {
  static const size_t gaps[] = {510774, 227011, 100894, 44842, 19930, 8858, 3937,
                                1750,   701,    301,    132,   57,    23,   10};
  if (n > 16)
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++) sort_by_gap(ids, n, gaps[g]);
  for (size_t i = 1; i < n; i++) {
    uint32_t id = ids[i], *to = ids + i;
    for (; to > ids && to[-1] > id; to--) to[0] = to[-1];
    *to = id;
  }
}

bool nf_labels_repeat_key(const nf_labels *labels, const uint32_t *ids, size_t n) {
  for (size_t i = 1; i < n; i++)
    for (size_t k = 0; k < i; k++)
      if (nf_label_key(nf_labels_get(labels, ids[k])) == nf_label_key(nf_labels_get(labels, ids[i])))
        return true;
  return false;
}
