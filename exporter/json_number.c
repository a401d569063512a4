#include "exporter/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOUBLE_DIGITS = 17 };

static bool digit(int c) { return c >= '0' && c <= '9'; }

/* Decimal digits (no sign, no point) and exponent of the shortest text that reads back as `value` (> 0).
 * Taken apart byte by byte, so that the decimal point of the process's locale does not matter. */
static int shortest_digits(double value, char digits[DOUBLE_DIGITS + 1], int *exponent) {
  char text[64];
  for (int precision = 0; precision < DOUBLE_DIGITS; precision++) {
    snprintf(text, sizeof text, "%.*e", precision, value);
    if (strtod(text, NULL) == value) break;
  }
  int count = 0;
  const char *p = text;
  for (; *p && *p != 'e'; p++)
    if (digit(*p)) digits[count++] = *p;
  *exponent = *p ? atoi(p + 1) : 0;
  while (count > 1 && digits[count - 1] == '0') count--;
  return count;
}

static void append_zeros(nf_buffer *out, int count) {
  while (count-- > 0) nf_buffer_append_char(out, '0');
}

void nf_json_append_double(nf_buffer *out, double value) {
  if (value < 0 || (value == 0 && 1 / value < 0)) {
    nf_buffer_append_char(out, '-');
    value = -value;
  }
  if (value == 0) {
    nf_buffer_append_text(out, "0.0");
    return;
  }
  char digits[DOUBLE_DIGITS + 1];
  int exponent, count = shortest_digits(value, digits, &exponent);
  int point = exponent + 1; /* digits before the point */
  if (count <= point && point <= 16) {
    nf_buffer_append(out, digits, (size_t)count);
    append_zeros(out, point - count);
    nf_buffer_append_text(out, ".0");
  } else if (point > 0 && point <= 16) {
    nf_buffer_append(out, digits, (size_t)point);
    nf_buffer_append_char(out, '.');
    nf_buffer_append(out, digits + point, (size_t)(count - point));
  } else if (point > -5 && point <= 0) {
    nf_buffer_append_text(out, "0.");
    append_zeros(out, -point);
    nf_buffer_append(out, digits, (size_t)count);
  } else {
    nf_buffer_append_char(out, digits[0]);
    if (count > 1) nf_buffer_append_char(out, '.');
    nf_buffer_append(out, digits + 1, (size_t)count - 1);
    nf_buffer_append_format(out, "e%d", exponent);
  }
}

bool nf_json_read_double(const char *text, size_t len, double *value) {
  char local[128], *copy = len + 8 <= sizeof local ? local : malloc(len + 8), point[16];
  if (!copy) return false;
  snprintf(point, sizeof point, "%.1f", 0.5); /* "0.5" with the point of the process's locale */
  size_t point_len = strlen(point) - 2, out = 0;
  for (size_t i = 0; i < len; i++) {
    if (text[i] == '.') {
      memcpy(copy + out, point + 1, point_len);
      out += point_len;
    } else {
      copy[out++] = text[i];
    }
  }
  copy[out] = 0;
  *value = strtod(copy, NULL);
  if (copy != local) free(copy);
  return true;
}
