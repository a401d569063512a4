#include "core/labels.h"

#include <stdio.h>

/* ---- a label as text, for messages: Label { key: "K", str: Some("S"), num: 0, num_unit: None } ---- */

typedef struct text {
  char *out; /* NULL: only count */
  size_t len;
} text;

static void put(text *t, const char *bytes, size_t len) {
  if (t->out) memcpy(t->out + t->len, bytes, len);
  t->len += len;
}

static void put_literal(text *t, const char *s) { put(t, s, strlen(s)); }

/* Characters that would be invisible or end the quotes are escaped. */
static void put_quoted(text *t, nf_str s) {
  put(t, "\"", 1);
  for (size_t i = 0; i < s.len; i++) {
    unsigned char c = (unsigned char)s.ptr[i];
    char code[16];
    switch (c) {
    case '"':
      put_literal(t, "\\\"");
      break;
    case '\\':
      put_literal(t, "\\\\");
      break;
    case '\n':
      put_literal(t, "\\n");
      break;
    case '\r':
      put_literal(t, "\\r");
      break;
    case '\t':
      put_literal(t, "\\t");
      break;
    case '\0':
      put_literal(t, "\\0");
      break;
    default:
      if (c < 0x20 || c == 0x7f) {
        snprintf(code, sizeof code, "\\u{%x}", c);
        put_literal(t, code);
      } else if (c == 0xC2 &&
                 (unsigned char)s.ptr[i + 1] < 0xA0) { /* U+0080 to U+009F; the text is valid UTF-8 */
        snprintf(code, sizeof code, "\\u{%x}", (unsigned char)s.ptr[++i]);
        put_literal(t, code);
      } else
        put(t, s.ptr + i, 1);
    }
  }
  put(t, "\"", 1);
}

static void put_optional(text *t, nf_str s) {
  if (!s.len) {
    put_literal(t, "None");
    return;
  }
  put_literal(t, "Some(");
  put_quoted(t, s);
  put_literal(t, ")");
}

static void put_label(text *t, const nf_label *label) {
  char num[32];
  put_literal(t, "Label { key: ");
  put_quoted(t, label->key);
  put_literal(t, ", str: ");
  put_optional(t, label->str);
  snprintf(num, sizeof num, ", num: %lld", (long long)label->num);
  put_literal(t, num);
  put_literal(t, ", num_unit: ");
  put_optional(t, label->num_unit);
  put_literal(t, " }");
}

static bool refuse(nf_error *error, const char *why, const nf_label *first, const nf_label *second) {
  text t = {0};
  for (int pass = 0; pass < 2; pass++) {
    t.len = 0;
    put_literal(&t, why);
    put_label(&t, first);
    if (second) {
      put(&t, " ", 1);
      put_label(&t, second);
    }
    if (pass == 0 && !(t.out = nf_alloc(t.len))) return nf_error_set_no_memory(error);
  }
  nf_error_set_text(error, t.out, t.len);
  nf_free(t.out);
  return false;
}

/* ---- the rules ---- */

static bool same(nf_str a, nf_str b) {
  return a.len == b.len && (!a.len || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static bool is(nf_str s, const char *literal, size_t len) {
  return s.len == len && memcmp(s.ptr, literal, len) == 0;
}

#define IS(s, literal) is(s, literal, sizeof literal - 1)

static bool check_alone(const nf_label *label, nf_error *error) {
  if (IS(label->key, NF_LOCAL_ROOT_SPAN_ID) && (label->str.len || label->num == 0))
    return refuse(error, "Invalid \"local root span id\" label: ", label, NULL);
  if (IS(label->key, NF_END_TIMESTAMP_NS))
    return refuse(error, "Timestamp should not be passed as a label ", label, NULL);
  return true;
}

/* The labels before one are searched through a table of its own, which the few labels of usual samples do
 * without. */
#define FEW 16

bool nf_labels_check(const nf_label *labels, size_t n, nf_error *error) {
  uint32_t *slots = NULL;
  size_t mask = 0;
  if (n > FEW) {
    for (mask = 64; mask < n * 2;) mask *= 2;
    slots = nf_pages_alloc(mask * sizeof *slots);
    if (!slots) return nf_error_set_no_memory(error);
    mask--;
  }
  bool ok = true;
  for (size_t i = 0; ok && i < n; i++) {
    const nf_label *first = NULL;
    if (slots) {
      size_t slot = (size_t)nf_hash_bytes(labels[i].key.ptr, labels[i].key.len) & mask;
      for (; slots[slot] && !first; slot = (slot + 1) & mask)
        if (same(labels[slots[slot] - 1].key, labels[i].key)) first = &labels[slots[slot] - 1];
      if (!first) slots[slot] = (uint32_t)i + 1;
    } else
      for (size_t k = 0; k < i && !first; k++)
        if (same(labels[k].key, labels[i].key)) first = &labels[k];
    if (first)
      ok = refuse(error, "Duplicate label on sample: ", first, &labels[i]);
    else
      ok = check_alone(&labels[i], error);
  }
  nf_pages_free(slots, slots ? (mask + 1) * sizeof *slots : 0);
  return ok;
}
