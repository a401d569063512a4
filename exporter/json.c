#include "exporter/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_LIMIT = 128 };

typedef struct reader {
  const char *text;
  size_t len, at;
  unsigned depth;
  nf_error *error;
  nf_buffer *out;
} reader;

/* Where a member of an object lies in the output: its key (as written, quotes included) and its value. */
typedef struct member {
  size_t key, key_end, value_end, order;
  const char *base; /* for comparing; set just before sorting */
} member;

static bool fail_at(reader *r, const char *why, size_t index) {
  size_t line = 1, column = 0;
  for (size_t i = 0; i < index; i++) {
    column++;
    if (r->text[i] == '\n') line++, column = 0;
  }
  return nf_error_set(r->error, "%s at line %zu column %zu", why, line, column);
}

/* For what was just read, and for what comes next. */
static bool fail_here(reader *r, const char *why) { return fail_at(r, why, r->at); }
static bool fail_next(reader *r, const char *why) {
  return fail_at(r, why, r->at < r->len ? r->at + 1 : r->len);
}

/* The next byte, or -1 at the end. */
static int peek(const reader *r) { return r->at < r->len ? (unsigned char)r->text[r->at] : -1; }

static int skip_blanks(reader *r) {
  int c;
  while ((c = peek(r)) == ' ' || c == '\t' || c == '\n' || c == '\r') r->at++;
  return c;
}

static bool digit(int c) { return c >= '0' && c <= '9'; }

static void append_escaped(nf_buffer *out, unsigned char c) {
  switch (c) {
  case '"':
    nf_buffer_append_text(out, "\\\"");
    break;
  case '\\':
    nf_buffer_append_text(out, "\\\\");
    break;
  case '\b':
    nf_buffer_append_text(out, "\\b");
    break;
  case '\f':
    nf_buffer_append_text(out, "\\f");
    break;
  case '\n':
    nf_buffer_append_text(out, "\\n");
    break;
  case '\r':
    nf_buffer_append_text(out, "\\r");
    break;
  case '\t':
    nf_buffer_append_text(out, "\\t");
    break;
  default:
    if (c < 0x20)
      nf_buffer_append_format(out, "\\u%04x", c);
    else
      nf_buffer_append_char(out, (char)c);
  }
}

static void append_code_point(nf_buffer *out, uint32_t c) {
  if (c < 0x80) {
    append_escaped(out, (unsigned char)c);
  } else if (c < 0x800) {
    nf_buffer_append_char(out, (char)(0xC0 | c >> 6));
    nf_buffer_append_char(out, (char)(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    nf_buffer_append_char(out, (char)(0xE0 | c >> 12));
    nf_buffer_append_char(out, (char)(0x80 | (c >> 6 & 0x3F)));
    nf_buffer_append_char(out, (char)(0x80 | (c & 0x3F)));
  } else {
    nf_buffer_append_char(out, (char)(0xF0 | c >> 18));
    nf_buffer_append_char(out, (char)(0x80 | (c >> 12 & 0x3F)));
    nf_buffer_append_char(out, (char)(0x80 | (c >> 6 & 0x3F)));
    nf_buffer_append_char(out, (char)(0x80 | (c & 0x3F)));
  }
}

static bool read_hex(reader *r, uint32_t *value) {
  *value = 0;
  if (r->len - r->at < 4) return r->at = r->len, fail_here(r, "EOF while parsing a string");
  for (int i = 0; i < 4; i++) {
    int c = (unsigned char)r->text[r->at++], low = c | 0x20;
    if (digit(c))
      *value = *value << 4 | (uint32_t)(c - '0');
    else if (low >= 'a' && low <= 'f')
      *value = *value << 4 | (uint32_t)(low - 'a' + 10);
    else
      return fail_here(r, "invalid escape");
  }
  return true;
}

static bool read_surrogate_pair(reader *r, uint32_t *value) {
  if (*value >= 0xDC00) return fail_here(r, "lone leading surrogate in hex escape");
  for (const char *expected = "\\u"; *expected; expected++) {
    if (peek(r) < 0) return fail_here(r, "EOF while parsing a string");
    if (r->text[r->at++] != *expected) return fail_here(r, "unexpected end of hex escape");
  }
  uint32_t low;
  if (!read_hex(r, &low)) return false;
  if (low < 0xDC00 || low > 0xDFFF) return fail_here(r, "lone leading surrogate in hex escape");
  *value = 0x10000 + ((*value - 0xD800) << 10) + (low - 0xDC00);
  return true;
}

static bool read_escape(reader *r) {
  int c = peek(r);
  if (c < 0) return fail_here(r, "EOF while parsing a string");
  r->at++;
  uint32_t value;
  switch (c) {
  case '"':
  case '\\':
  case '/':
    value = (uint32_t)c;
    break;
  case 'b':
    value = '\b';
    break;
  case 'f':
    value = '\f';
    break;
  case 'n':
    value = '\n';
    break;
  case 'r':
    value = '\r';
    break;
  case 't':
    value = '\t';
    break;
  case 'u':
    if (!read_hex(r, &value)) return false;
    if (value >= 0xD800 && value <= 0xDFFF && !read_surrogate_pair(r, &value)) return false;
    break;
  default:
    return fail_here(r, "invalid escape");
  }
  append_code_point(r->out, value);
  return true;
}

/* After the opening quote. */
static bool read_string(reader *r) {
  nf_buffer_append_char(r->out, '"');
  for (;;) {
    size_t begin = r->at;
    int c;
    while ((c = peek(r)) >= 0x20 && c != '"' && c != '\\') r->at++;
    nf_buffer_append(r->out, r->text + begin, r->at - begin);
    if (c < 0) return fail_here(r, "EOF while parsing a string");
    r->at++;
    if (c == '"') break;
    if (c != '\\') return fail_here(r, "control character (\\u0000-\\u001F) found while parsing a string");
    if (!read_escape(r)) return false;
  }
  nf_buffer_append_char(r->out, '"');
  return true;
}

static bool integer_fits(const char *digits, size_t count, bool negative) {
  const char *most = negative ? "9223372036854775808" : "18446744073709551615";
  size_t length = strlen(most);
  return count < length || (count == length && memcmp(digits, most, length) <= 0);
}

static bool read_digits(reader *r) {
  int c = peek(r);
  if (c < 0) return fail_here(r, "EOF while parsing a value");
  if (!digit(c)) return fail_next(r, "invalid number");
  while (digit(peek(r))) r->at++;
  return true;
}

static bool read_number(reader *r) {
  size_t begin = r->at;
  bool negative = peek(r) == '-', integer = true;
  r->at += negative;
  size_t digits = r->at;
  if (peek(r) == '0') {
    r->at++;
    if (digit(peek(r))) return fail_next(r, "invalid number");
  } else if (!read_digits(r))
    return false;
  size_t digits_end = r->at;
  if (peek(r) == '.') {
    integer = false;
    r->at++;
    if (!read_digits(r)) return false;
  }
  if (peek(r) == 'e' || peek(r) == 'E') {
    integer = false;
    r->at++;
    if (peek(r) == '+' || peek(r) == '-') r->at++;
    if (!read_digits(r)) return false;
  }
  bool minus_zero = negative && digits_end - digits == 1 && r->text[digits] == '0';
  if (integer && !minus_zero && integer_fits(r->text + digits, digits_end - digits, negative)) {
    nf_buffer_append(r->out, r->text + begin, r->at - begin);
    return true;
  }
  double value = 0;
  if (!nf_json_read_double(r->text + begin, r->at - begin, &value)) {
    r->out->failed = true;
    return true;
  }
  if (value - value != 0) return fail_here(r, "number out of range"); /* not finite */
  nf_json_append_double(r->out, value);
  return true;
}

static bool read_word(reader *r, const char *word) {
  for (const char *expected = word; *expected; expected++) {
    if (peek(r) < 0) return fail_here(r, "EOF while parsing a value");
    if (r->text[r->at++] != *expected) return fail_here(r, "expected ident");
  }
  nf_buffer_append_text(r->out, word);
  return true;
}

static bool read_value(reader *r);

static bool enter(reader *r) {
  if (++r->depth >= DEPTH_LIMIT) return fail_next(r, "recursion limit exceeded");
  r->at++;
  return true;
}

static bool read_array(reader *r) {
  if (!enter(r)) return false;
  nf_buffer_append_char(r->out, '[');
  for (bool first = true;; first = false) {
    int c = skip_blanks(r);
    if (c < 0) return fail_here(r, "EOF while parsing a list");
    if (c == ']') break;
    if (!first) {
      if (c != ',') return fail_next(r, "expected `,` or `]`");
      r->at++;
      nf_buffer_append_char(r->out, ',');
      c = skip_blanks(r);
      if (c == ']') return fail_next(r, "trailing comma");
    }
    if (!read_value(r)) return false;
  }
  r->at++;
  r->depth--;
  nf_buffer_append_char(r->out, ']');
  return true;
}

/* Keys are compared as they are written here. Escapes do not disturb the order of the bytes they stand
 * for, but for those of '"' and of control characters, which are put back first. */
static unsigned next_key_byte(const char *key, size_t *at) {
  unsigned char c = (unsigned char)key[(*at)++];
  if (c != '\\') return c;
  c = (unsigned char)key[(*at)++];
  switch (c) {
  case 'b':
    return '\b';
  case 'f':
    return '\f';
  case 'n':
    return '\n';
  case 'r':
    return '\r';
  case 't':
    return '\t';
  case 'u': {
    unsigned value = 0;
    for (int digits = 0; digits < 4; digits++) {
      unsigned char digit = (unsigned char)key[(*at)++]; /* lower case, as this file writes them */
      value = value << 4 | (digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    return value;
  }
  default:
    return c;
  }
}

static int compare_keys(const member *a, const member *b) {
  const char *x = a->base + a->key + 1, *y = b->base + b->key + 1;
  size_t x_len = a->key_end - a->key - 2, y_len = b->key_end - b->key - 2, i = 0, j = 0;
  while (i < x_len && j < y_len) {
    unsigned p = next_key_byte(x, &i), q = next_key_byte(y, &j);
    if (p != q) return p < q ? -1 : 1;
  }
  return i < x_len ? 1 : j < y_len ? -1 : 0;
}

static int compare_members(const void *left, const void *right) {
  const member *a = left, *b = right;
  int order = compare_keys(a, b);
  if (order) return order;
  return a->order < b->order ? -1 : a->order > b->order;
}

/* Rewrites what the object has appended since `begin` in the order of its keys. */
static void sort_members(reader *r, size_t begin, member *members, size_t count) {
  nf_buffer *out = r->out;
  if (out->failed || count == 0) return;
  nf_buffer sorted = {0};
  for (size_t i = 0; i < count; i++) members[i].base = out->data;
  qsort(members, count, sizeof *members, compare_members);
  for (size_t i = 0; i < count; i++) {
    if (i + 1 < count && compare_keys(&members[i], &members[i + 1]) == 0) continue;
    if (sorted.len) nf_buffer_append_char(&sorted, ',');
    nf_buffer_append(&sorted, out->data + members[i].key, members[i].value_end - members[i].key);
  }
  if (sorted.failed)
    out->failed = true;
  else if (sorted.len) {
    memcpy(out->data + begin, sorted.data, sorted.len); /* never longer than what was there */
    out->len = begin + sorted.len;
  }
  nf_buffer_deinit(&sorted);
}

static bool read_member(reader *r, member *m) {
  m->key = r->out->len;
  r->at++;
  if (!read_string(r)) return false;
  m->key_end = r->out->len;
  int c = skip_blanks(r);
  if (c < 0) return fail_here(r, "EOF while parsing an object");
  if (c != ':') return fail_next(r, "expected `:`");
  r->at++;
  nf_buffer_append_char(r->out, ':');
  if (!read_value(r)) return false;
  m->value_end = r->out->len;
  return true;
}

static bool read_members(reader *r, nf_buffer *members) {
  size_t count = 0;
  for (bool first = true;; first = false) {
    int c = skip_blanks(r);
    if (c < 0) return fail_here(r, "EOF while parsing an object");
    if (c == '}') return true;
    if (!first) {
      if (c != ',') return fail_next(r, "expected `,` or `}`");
      r->at++;
      c = skip_blanks(r);
      if (c == '}') return fail_next(r, "trailing comma");
      if (c < 0) return fail_here(r, "EOF while parsing a value");
      nf_buffer_append_char(r->out, ',');
    }
    if (c != '"') return fail_next(r, "key must be a string");
    member m = {.order = count++};
    if (!read_member(r, &m)) return false;
    nf_buffer_append(members, &m, sizeof m);
    if (members->failed) r->out->failed = true;
  }
}

static bool read_object(reader *r) {
  if (!enter(r)) return false;
  nf_buffer_append_char(r->out, '{');
  size_t begin = r->out->len;
  nf_buffer members = {0};
  bool ok = read_members(r, &members);
  if (ok) sort_members(r, begin, (member *)(void *)members.data, members.len / sizeof(member));
  nf_buffer_deinit(&members);
  if (!ok) return false;
  r->at++;
  r->depth--;
  nf_buffer_append_char(r->out, '}');
  return true;
}

static bool read_value(reader *r) {
  int c = skip_blanks(r);
  switch (c) {
  case -1:
    return fail_here(r, "EOF while parsing a value");
  case '"':
    r->at++;
    return read_string(r);
  case '[':
    return read_array(r);
  case '{':
    return read_object(r);
  case 't':
    return read_word(r, "true");
  case 'f':
    return read_word(r, "false");
  case 'n':
    return read_word(r, "null");
  default:
    if (c == '-' || digit(c)) return read_number(r);
    return fail_next(r, "expected value");
  }
}

bool nf_json_canonicalize(nf_buffer *out, nf_text text, nf_error *error) {
  size_t begin = out->len;
  reader r = {.text = text.ptr, .len = text.len, .error = error, .out = out};
  bool ok = read_value(&r) && (skip_blanks(&r) < 0 || fail_next(&r, "trailing characters"));
  if (!ok) out->len = begin;
  return ok;
}

void nf_json_append_string(nf_buffer *out, nf_text text) {
  nf_buffer clean = {0};
  nf_text_append_lossy(&clean, text);
  if (clean.failed) out->failed = true;
  nf_buffer_append_char(out, '"');
  for (size_t i = 0; i < clean.len; i++) append_escaped(out, (unsigned char)clean.data[i]);
  nf_buffer_append_char(out, '"');
  nf_buffer_deinit(&clean);
}
