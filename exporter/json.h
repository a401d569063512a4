/* Reads JSON strictly (RFC 8259) and writes it again in one canonical form: object keys sorted by their
 * bytes, the last of equal keys wins, no white space, integers within 64 bits kept as they are, every
 * other number as the shortest double.
 *
 * A reader of our own because the C libraries at hand lose what must survive here: unsigned 64-bit and
 * longer integers, keys with U+0000, the difference between "no memory" and "half a document". */
#ifndef NF_EXPORTER_JSON_H
#define NF_EXPORTER_JSON_H

#include "exporter/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends the canonical form of the one JSON value in `text` (which must be UTF-8). On bad JSON nothing
 * useful is appended and the error says what and where: "expected value at line 1 column 1". Arrays and
 * objects may nest 127 deep. Out of memory shows in out->failed. */
bool nf_json_canonicalize(nf_buffer *out, nf_text text, nf_error *error);

/* Appends the text (UTF-8; a bad sequence becomes U+FFFD) as a quoted JSON string. */
void nf_json_append_string(nf_buffer *out, nf_text text);

/* Appends a double as its shortest text that reads back as the same number, always with a fraction or an
 * exponent. */
void nf_json_append_double(nf_buffer *out, double value);

/* The double nearest to a number in JSON's form, infinite when it is too large; whatever decimal point the
 * process's locale has. False when out of memory. */
bool nf_json_read_double(const char *text, size_t len, double *value);

#ifdef __cplusplus
}
#endif

#endif
