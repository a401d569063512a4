#define _GNU_SOURCE /* mremap */
#include "core/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

void *nf_alloc(size_t size) { return malloc(size ? size : 1); }

void *nf_alloc_zeroed(size_t size) { return calloc(1, size ? size : 1); }

void *nf_realloc(void *block, size_t size) { return realloc(block, size ? size : 1); }

void nf_free(void *block) { free(block); }

void *nf_pages_alloc(size_t size) {
  if (size < NF_PAGES_FROM) return nf_alloc_zeroed(size);
  void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return block == MAP_FAILED ? NULL : block;
}

void nf_pages_free(void *block, size_t size) {
  if (!block) return;
  if (size < NF_PAGES_FROM)
    nf_free(block);
  else
    munmap(block, size);
}

void *nf_pages_realloc(void *block, size_t old_size, size_t size) {
  if (!block) return nf_pages_alloc(size);
  if (old_size < NF_PAGES_FROM && size < NF_PAGES_FROM) return nf_realloc(block, size);
  if (old_size >= NF_PAGES_FROM && size >= NF_PAGES_FROM) {
    void *moved = mremap(block, old_size, size, MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? NULL : moved;
  }
  void *moved = nf_pages_alloc(size);
  if (!moved) return NULL;
  memcpy(moved, block, old_size < size ? old_size : size);
  nf_pages_free(block, old_size);
  return moved;
}

void nf_pages_discard(void *block, size_t size, size_t from, size_t len) {
  if (size >= NF_PAGES_FROM) madvise((char *)block + from, len, MADV_DONTNEED);
}

void nf_pages_expect(void *block, size_t size, size_t from, size_t len) {
  if (size < NF_PAGES_FROM) return;
  if (((uintptr_t)block + from) % NF_PAGES_LARGE == 0 && len >= NF_PAGES_LARGE)
    madvise((char *)block + from, len - len % NF_PAGES_LARGE, MADV_HUGEPAGE);
  madvise((char *)block + from, len, MADV_POPULATE_WRITE);
}

void nf_pages_spread(void *block, size_t size) {
  if (size >= NF_PAGES_HUGE_FROM) madvise(block, size, MADV_HUGEPAGE);
}
