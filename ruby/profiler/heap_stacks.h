#ifndef NF_HEAP_STACKS_H
#define NF_HEAP_STACKS_H

// Stacks that are kept for as long as an object that was allocated there lives. Equal stacks are kept once,
// and so are equal texts in them.
//
// Plain memory only, so that it can be used in the middle of an allocation and of a GC. Everything but
// reading a stack needs the GVL.

#include <datadog/profiling.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nf_heap_text {
  uint64_t hash;
  uint32_t references, length;
  char bytes[];
} nf_heap_text;

typedef struct nf_heap_frame {
  nf_heap_text *name, *file;
  int64_t line;
} nf_heap_frame;

typedef struct nf_heap_stack {
  uint64_t hash;
  uint32_t references, count;
  nf_heap_frame frames[];
} nf_heap_stack;

// A set of pointers to things that start with their hash; open addressing.
typedef struct nf_heap_set {
  void **places; // NULL = free
  size_t size, count;
} nf_heap_set;

typedef struct nf_heap_stacks {
  nf_heap_set texts, stacks;
  size_t bytes; // of all of it
} nf_heap_stacks;

// A stack or text with one more reference, found or made; NULL: no memory, or `budget` bytes would not do.
nf_heap_stack *nf_heap_stacks_take(nf_heap_stacks *stacks, ddog_prof_Slice_Location locations, size_t budget);
nf_heap_text *nf_heap_stacks_take_text(nf_heap_stacks *stacks, ddog_CharSlice text, size_t budget);

static inline void nf_heap_stack_retain(nf_heap_stack *stack) { stack->references++; }
static inline void nf_heap_text_retain(nf_heap_text *text) { text->references++; }
void nf_heap_stacks_release(nf_heap_stacks *stacks, nf_heap_stack *stack);
void nf_heap_stacks_release_text(nf_heap_stacks *stacks, nf_heap_text *text);

// All references must have been released.
void nf_heap_stacks_deinit(nf_heap_stacks *stacks);

// For tests: does every stack have the hash that its locations have, and is it found by them?
bool nf_heap_stacks_consistent(const nf_heap_stacks *stacks);

// Fills in `locations`, for which there is room.
void nf_heap_stack_locations(const nf_heap_stack *stack, ddog_prof_Location *locations);

#endif
