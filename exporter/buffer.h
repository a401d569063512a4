/* A growing byte buffer with a sticky failure: append as often as you like, ask once at the end whether
 * memory sufficed. A secret buffer is overwritten before its memory is given back, when growing too, so
 * that no key stays behind in the heap. */
#ifndef NF_EXPORTER_BUFFER_H
#define NF_EXPORTER_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_buffer {
  char *data; /* not NUL-terminated; NULL while empty */
  size_t len, capacity;
  bool failed; /* out of memory at some point: the contents are incomplete */
  bool secret; /* set it before the first byte */
} nf_buffer;

/* As calloc. For what each report needs: glibc's malloc, other than its calloc, takes small blocks from those
 * that the report before has given back, and does not cut them out of the place of its large one. */
void *nf_zeroed(size_t count, size_t size);

/* An empty buffer is all zeros: nf_buffer buffer = {0}; */
void nf_buffer_deinit(nf_buffer *buffer);

/* Makes room for `more` bytes; false when out of memory. */
bool nf_buffer_reserve(nf_buffer *buffer, size_t more);
void nf_buffer_append(nf_buffer *buffer, const void *data, size_t len);
void nf_buffer_append_text(nf_buffer *buffer, const char *text);
void nf_buffer_append_char(nf_buffer *buffer, char c);
void nf_buffer_append_format(nf_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
