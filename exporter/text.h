/* Text as callers pass it: bytes that should be UTF-8, borrowed. */
#ifndef NF_EXPORTER_TEXT_H
#define NF_EXPORTER_TEXT_H

#include "core/error.h"
#include "exporter/buffer.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_text {
  const char *ptr; /* may be NULL when len is 0 */
  size_t len;
} nf_text;

/* A literal or any other NUL-terminated string. */
nf_text nf_text_of(const char *string);

/* A copy that ends with NUL, to be freed; NULL if memory is out. Not strdup: that takes the memory where libc
 * finds malloc, which is another one than ours where a program brings its own (jemalloc) and we were loaded
 * with RTLD_DEEPBIND. */
char *nf_text_copy(nf_text text);

/* *to becomes such a copy of a string, or NULL for NULL; false if memory is out. */
bool nf_text_copy_string(char **to, const char *from);

/* True for well-formed UTF-8. Otherwise the error says where the first bad sequence is and how long. */
bool nf_text_check_utf8(nf_text text, nf_error *error);

/* Appends the text with each bad sequence replaced by U+FFFD. */
void nf_text_append_lossy(nf_buffer *out, nf_text text);

/* True for equal bytes, ASCII letters compared without case. */
bool nf_text_equal_ignoring_case(nf_text a, nf_text b);

/* The text without blanks (ASCII white space) at both ends. */
nf_text nf_text_trim(nf_text text);

/* "Connection refused (os error 111)" */
void nf_text_append_errno(nf_buffer *out, int number);

#ifdef __cplusplus
}
#endif

#endif
