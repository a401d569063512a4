/* A growing array of bytes or rows, in one block, and the account that its memory is charged to.
 *
 * Large blocks are pages of the kernel that growing moves without copying, and capacity that was never
 * written costs no memory, so one block is as lean as a list of chunks, and rows are found by a
 * multiplication.
 *
 * Growing is always a step of its own (`_reserve`), so that a caller can first reserve all that a change
 * needs, and then make the change without anything that can fail. */
#ifndef NF_CORE_ARRAY_H
#define NF_CORE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What the arrays and tables of one profile take together, and how much they may. */
typedef struct nf_account {
  size_t held;
  size_t budget;  /* SIZE_MAX: none */
  bool exhausted; /* the last refusal was for the budget, not for lack of memory */
} nf_account;

/* Charges `more` bytes; false if the budget does not allow it. */
bool nf_account_charge(nf_account *account, size_t more);

typedef struct nf_array {
  uint8_t *data;
  size_t used, capacity; /* bytes */
} nf_array;

/* An empty array is all zeros, or NF_ARRAY_EMPTY, whose data may be pointed into (with an offset of 0, which C forbids for NULL). */
extern uint8_t nf_nowhere[1];
#define NF_ARRAY_EMPTY ((nf_array){nf_nowhere, 0, 0})

void nf_array_deinit(nf_array *array, nf_account *account);

/* Out of line; use nf_array_reserve. */
bool nf_array_grow(nf_array *array, nf_account *account, size_t more);

/* Makes sure that `more` bytes fit behind the used ones. On failure the array is as it was. Existing pointers
 * into it may become invalid. */
static inline bool nf_array_reserve(nf_array *array, nf_account *account, size_t more) {
  return array->capacity - array->used >= more || nf_array_grow(array, account, more);
}

/* Appends into reserved space, and returns where. */
static inline void *nf_array_extend(nf_array *array, size_t len) {
  void *at = array->data + array->used;
  array->used += len;
  return at;
}

static inline void nf_array_append(nf_array *array, const void *bytes, size_t len) {
  if (len) memcpy(nf_array_extend(array, len), bytes, len);
}

#define NF_ROWS(array, type) ((type *)(void *)(array).data)
#define NF_ROW_COUNT(array, type) ((array).used / sizeof(type))

#endif
