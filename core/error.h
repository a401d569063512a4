/* Errors: one way to report them, everywhere.
 *
 * A function that can fail takes an `nf_error *` last and returns false (or NULL). Whoever knows why fills
 * the error in, once; callers pass it up without rewriting it:
 *
 *     if (count > limit) return nf_error_set(error, "%zu labels are more than the limit of %zu", count,
 * limit);
 *
 * The text is UTF-8 and owned by the error. Out of memory has no text, so that reporting it needs no memory:
 * nf_error_text() then gives a fixed one. An error starts as all zeros: nf_error error = {0}; */
#ifndef NF_CORE_ERROR_H
#define NF_CORE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_error {
  char *text; /* owned, NUL-terminated; NULL: no error, or no memory for its text */
  size_t len; /* without the final NUL; the text may hold NULs of its own */
} nf_error;

/* printf into the error, replacing what it held. Always false: `return nf_error_set(...)`. `error` may be
 * NULL. */
bool nf_error_set(nf_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool nf_error_set_va(nf_error *error, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* The same for text that is ready, and that may hold NULs. */
bool nf_error_set_text(nf_error *error, const char *text, size_t len);

/* Out of memory: empties the error, allocates nothing. */
bool nf_error_set_no_memory(nf_error *error);

/* Borrowed; never NULL. "out of memory" for an error without text. */
const char *nf_error_text(const nf_error *error);

/* Frees the text and makes the error all zeros. Twice is harmless. */
void nf_error_deinit(nf_error *error);

#ifdef __cplusplus
}
#endif

#endif
