/* error.h - what a function that failed says of it.
 *
 * One way throughout: a function that can fail returns false (or NULL) and fills in the nf_error that its caller
 * passed, at the place where the reason is known. Callers hand it up unchanged.
 */
#ifndef NF_CORE_ERROR_H
#define NF_CORE_ERROR_H

#include <stdbool.h>
#include <stddef.h>

/* An owned, NUL-terminated UTF-8 text; text == NULL: no error yet, or no memory was left for its text. */
typedef struct nf_error {
  char *text;
  size_t len;
} nf_error;

/* Replaces the text. Always false, so that a caller can `return nf_error_set(...)`. A NULL error is left alone. */
bool nf_error_set(nf_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Frees the text and leaves an empty error. NULL is fine. */
void nf_error_deinit(nf_error *error);

#endif
