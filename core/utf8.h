/* UTF-8 (Unicode's table 3-7: no overlong forms, no surrogates, nothing beyond U+10FFFF). */
#ifndef NF_CORE_UTF8_H
#define NF_CORE_UTF8_H

#include "core/error.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first thing that is wrong with a text. */
typedef struct nf_utf8_fault {
  size_t index; /* of its first byte */
  unsigned
      len; /* 1 to 3 bytes: what could still have become a character; 0: the text ends inside a character */
} nf_utf8_fault;

bool nf_utf8_valid(const char *text, size_t len, nf_utf8_fault *fault);

/* The same with words: `invalid utf-8 sequence of N bytes from index I`, `incomplete utf-8 byte sequence from
 * index I`. */
bool nf_utf8_check(const char *text, size_t len, nf_error *error);

/* The size of the text with U+FFFD in the place of each fault. */
size_t nf_utf8_lossy_size(const char *text, size_t len);

/* Writes that text: nf_utf8_lossy_size bytes. */
void nf_utf8_lossy(const char *text, size_t len, char *out);

#ifdef __cplusplus
}
#endif

#endif
