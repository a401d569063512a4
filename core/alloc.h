/* The one door to memory. Nothing in core/ or in what it links calls malloc or mmap but through here, so that
 * a test can let the n-th request fail (tests link with --wrap=malloc and the like) and see that nothing is
 * lost.
 *
 * Small blocks come from malloc. Large ones ("pages") come straight from the kernel and go straight back: a
 * profile that was dropped or reset leaves nothing behind in malloc's heap, whatever order things are freed
 * in. */
#ifndef NF_CORE_ALLOC_H
#define NF_CORE_ALLOC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL when out of memory, never for another reason; a size of 0 is served as 1. */
void *nf_alloc(size_t size) __attribute__((malloc, alloc_size(1)));
void *nf_alloc_zeroed(size_t size) __attribute__((malloc, alloc_size(1)));
void *nf_realloc(void *block, size_t size) __attribute__((alloc_size(2)));
void nf_free(void *block);

/* For blocks that are large or may become so: from NF_PAGES_FROM bytes on they are pages of the kernel,
 * zeroed and untouched (they cost memory only where they are written); below, malloc'd and zeroed (what
 * growing adds is not). Give `size` back as it was. */
#define NF_PAGES_FROM ((size_t)64 << 10)
void *nf_pages_alloc(size_t size);
void *nf_pages_realloc(void *block, size_t old_size, size_t size);
void nf_pages_free(void *block, size_t size);

/* Gives back the memory of a part of a block, whose contents are then lost; the block itself stays. `from`
 * and `len` are multiples of 4096. Does nothing for a block that is not pages. */
void nf_pages_discard(void *block, size_t size, size_t from, size_t len);

/* Hints, which cost nothing where the kernel does not know them. A part of a block will be written next: its
 * pages may be found in one go rather than one by one, and large ones may be taken for what is a multiple of
 * NF_PAGES_LARGE at such an address. A block is used all over: large pages serve it best. */
#define NF_PAGES_LARGE ((size_t)2 << 20)
void nf_pages_expect(void *block, size_t size, size_t from, size_t len);
#define NF_PAGES_HUGE_FROM ((size_t)4 << 20)
void nf_pages_spread(void *block, size_t size);

#ifdef __cplusplus
}
#endif

#endif
