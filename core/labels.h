/* Labels and sets of labels, each kept once.
 *
 * The id of a label (from 0) is its place in the order in which the profile first saw it; a set is its labels
 * by rising id, as varints. So equal sets are equal bytes whatever order a caller has, and labels are encoded
 * in first-seen order. */
#ifndef NF_CORE_LABELS_H
#define NF_CORE_LABELS_H

#include "core/bytes_table.h"
#include "core/error.h"
#include "core/recent.h"
#include "core/sample.h"

/* Strings that every profile begins with, at these ids. */
enum {
  NF_STRING_EMPTY,
  NF_STRING_LOCAL_ROOT_SPAN_ID,
  NF_STRING_TRACE_ENDPOINT,
  NF_STRING_END_TIMESTAMP_NS,
};
#define NF_LOCAL_ROOT_SPAN_ID "local root span id"
#define NF_TRACE_ENDPOINT "trace endpoint"
#define NF_END_TIMESTAMP_NS "end_timestamp_ns"

#define NF_LABEL_NUMERIC ((uint32_t)1 << 31)

typedef struct nf_label_row {
  uint32_t key;  /* a string, and NF_LABEL_NUMERIC */
  uint32_t text; /* the string of a text, the unit of a number */
  int64_t num;
} nf_label_row;

typedef struct nf_labels {
  nf_array rows;
  nf_id_table index;
  nf_bytes_table sets;
  nf_recent recent;
} nf_labels;

bool nf_labels_init(nf_labels *labels, nf_account *account);
void nf_labels_deinit(nf_labels *labels, nf_account *account);
void nf_labels_drop_indexes(nf_labels *labels, nf_account *account);

static inline uint32_t nf_labels_count(const nf_labels *labels) {
  return (uint32_t)NF_ROW_COUNT(labels->rows, nf_label_row);
}

static inline const nf_label_row *nf_labels_get(const nf_labels *labels, uint32_t id) {
  return NF_ROWS(labels->rows, nf_label_row) + id;
}

static inline uint32_t nf_label_key(const nf_label_row *row) { return row->key & ~NF_LABEL_NUMERIC; }

/* What a text or unit is for a label: a text hides number and unit. */
static inline const nf_str *nf_label_text(const nf_label *label) {
  return label->str.len ? &label->str : &label->num_unit;
}

/* ---- finding: found means that all of the label that counts was checked before ---- */

/* True for a text with a unit that it hides, and that must be UTF-8 all the same. */
static inline bool nf_label_hides_unit(const nf_label *label) {
  return label->str.len && label->num_unit.len;
}

static inline uint64_t nf_label_pointer_hash(const nf_label *label) {
  uint64_t what = label->str.len ? (uintptr_t)label->str.ptr : (uint64_t)label->num;
  return ((uintptr_t)label->key.ptr ^ what * NF_HASH_K1) * NF_HASH_K1;
}

/* What the hot step reads. Good until something is added. */
typedef struct nf_label_finder {
  nf_recent recent; /* of ids + 1 */
  const nf_label_row *rows;
  const uint32_t *offsets;
  const uint8_t *text;
} nf_label_finder;

static inline nf_label_finder nf_label_finder_make(const nf_labels *labels, const nf_bytes_table *strings) {
  return (nf_label_finder){labels->recent, NF_ROWS(labels->rows, nf_label_row),
                           NF_ROWS(strings->offsets, uint32_t), strings->bytes.data};
}

NF_INLINE bool nf_label_finder_same(nf_label_finder finder, uint32_t string, nf_str s) {
  const uint32_t *offset = finder.offsets + string;
  if (offset[1] - offset[0] != s.len) return false;
  return !s.len || (s.ptr && nf_words_equal(finder.text + offset[0], s.ptr, s.len));
}

NF_INLINE bool nf_label_finder_equal(nf_label_finder finder, const nf_label_row *row, const nf_label *label) {
  if (label->str.len) {
    if (row->key & NF_LABEL_NUMERIC || label->num_unit.len)
      return false; /* nf_labels_find takes hidden units */
    if (!nf_label_finder_same(finder, row->text, label->str)) return false;
  } else {
    if (!(row->key & NF_LABEL_NUMERIC) || row->num != label->num) return false;
    if (!nf_label_finder_same(finder, row->text, label->num_unit)) return false;
  }
  return nf_label_finder_same(finder, nf_label_key(row), label->key);
}

/* The row of a label that was seen lately, or NULL. */
NF_INLINE const nf_label_row *nf_label_finder_guess(nf_label_finder finder, const nf_label *label) {
  const uint32_t *set = nf_recent_set(&finder.recent, nf_label_pointer_hash(label));
  for (int way = 0; way < NF_RECENT_WAYS && set[way]; way++) {
    const nf_label_row *row = finder.rows + (set[way] - 1);
    if (nf_label_finder_equal(finder, row, label)) return row;
  }
  return NULL;
}

/* The id of a label that was not guessed, or NF_ID_NONE if it is not there yet. */
uint32_t nf_labels_find(nf_labels *labels, const nf_bytes_table *strings, const nf_label *label);

/* ---- adding ---- */

/* Makes room for `more` labels; their strings are the caller's matter. */
bool nf_labels_reserve(nf_labels *labels, nf_account *account, size_t more);

/* Finds or adds a label, and its strings, into reserved room. The text has been checked. */
uint32_t nf_labels_intern(nf_labels *labels, nf_bytes_table *strings, const nf_label *label);

/* Sorts ids, without memory. */
void nf_labels_sort(uint32_t *ids, size_t n);

/* True if two of the labels have one key. */
bool nf_labels_repeat_key(const nf_labels *labels, const uint32_t *ids, size_t n);

/* The rules that the labels of a sample must keep, checked one after the other: no key twice, `local root
 * span id` is a number other than 0, no `end_timestamp_ns`. The text has been checked. May need memory, and
 * fail for lack of it. */
bool nf_labels_check(const nf_label *labels, size_t n, nf_error *error);

#endif
