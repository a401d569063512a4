#ifndef NF_HEAP_SIZES_H
#define NF_HEAP_SIZES_H

// Questions about objects that were made a while ago and may be gone, with the VM's functions for its own
// objspace library.

#include <ruby.h>

#include <stdbool.h>
#include <stddef.h>

// Is there (still) an object of this type? The address must have been one of an object, in a part of the heap
// that the VM still has.
bool nf_heap_object_is(VALUE object, unsigned type);

// Bytes that the object takes up, without those that it refers to; 0: not known. May start a GC (types that
// libraries have defined answer for themselves); what they raise is held back.
size_t nf_heap_object_size(VALUE object);

// Is a GC under way, which has not told yet which objects are dead?
bool nf_heap_collecting(void);

// Calls `each` for all parts of the heap: from the first slot to behind the last. Ends a GC that is under
// way. May raise.
void nf_heap_each_page(int (*each)(void *start, void *end, size_t stride, void *data), void *data);

#endif
