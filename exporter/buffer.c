#include "exporter/buffer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { PAGE = 4096, POPULATE_FROM = 128 << 10 };

void *nf_zeroed(size_t count, size_t size) {
  if (size && count > PTRDIFF_MAX / size) return NULL;
  void *memory = malloc(count * size);
  if (memory) explicit_bzero(memory, count * size); /* of malloc and memset, compilers make calloc */
  return memory;
}

static void release(nf_buffer *buffer) {
  if (buffer->data && buffer->secret) explicit_bzero(buffer->data, buffer->capacity);
  free(buffer->data);
}

void nf_buffer_deinit(nf_buffer *buffer) {
  release(buffer);
  *buffer = (nf_buffer){0};
}

bool nf_buffer_reserve(nf_buffer *buffer, size_t more) {
  if (buffer->failed) return false;
  if (more <= buffer->capacity - buffer->len) return true;
  if (more > (size_t)PTRDIFF_MAX - buffer->len) return !(buffer->failed = true);
  size_t needed = buffer->len + more;
  size_t doubled = buffer->capacity <= (size_t)PTRDIFF_MAX / 2 ? buffer->capacity * 2 : needed;
  size_t capacity = needed > doubled ? needed : doubled;
  if (capacity < 64) capacity = 64;
  char *data = malloc(capacity); /* not realloc: it would leave a copy of the old contents behind */
  if (!data) return !(buffer->failed = true);
  if (buffer->len) memcpy(data, buffer->data, buffer->len);
  release(buffer);
  buffer->data = data;
  buffer->capacity = capacity;
  return true;
}

/* Has the kernel find all pages of what will be written at once: one by one, they cost more than the writing.
 * Memory that is written again has them already, down to its last page. Only a hint; errno stays as it was. */
static void populate(char *from, size_t len) {
  int before = errno;
  char *first = from + (PAGE - (uintptr_t)from % PAGE) % PAGE;
  size_t pages = (size_t)(from + len - first) / PAGE;
  unsigned char last_is_there = 0;
  mincore(first + (pages - 1) * PAGE, PAGE, &last_is_there);
  if (!(last_is_there & 1)) madvise(first, pages * PAGE, MADV_POPULATE_WRITE);
  errno = before;
}

void nf_buffer_append(nf_buffer *buffer, const void *data, size_t len) {
  if (len == 0 || !nf_buffer_reserve(buffer, len)) return;
  if (len >= POPULATE_FROM) populate(buffer->data + buffer->len, len);
  memcpy(buffer->data + buffer->len, data, len);
  buffer->len += len;
}

void nf_buffer_append_text(nf_buffer *buffer, const char *text) {
  nf_buffer_append(buffer, text, strlen(text));
}

void nf_buffer_append_char(nf_buffer *buffer, char c) { nf_buffer_append(buffer, &c, 1); }

void nf_buffer_append_format(nf_buffer *buffer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int len = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (len < 0) {
    buffer->failed = true;
    return;
  }
  if (!nf_buffer_reserve(buffer, (size_t)len + 1)) return;
  va_start(arguments, format);
  vsnprintf(buffer->data + buffer->len, (size_t)len + 1, format, arguments);
  va_end(arguments);
  buffer->len += (size_t)len;
}
