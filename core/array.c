#include "core/array.h"

#include "core/alloc.h"

uint8_t nf_nowhere[1]; /* never written */

bool nf_account_charge(nf_account *account, size_t more) {
  if (account->held > account->budget || more > account->budget - account->held) {
    account->exhausted = true;
    return false;
  }
  account->held += more;
  return true;
}

void nf_array_deinit(nf_array *array, nf_account *account) {
  if (array->capacity) nf_pages_free(array->data, array->capacity);
  account->held -= array->capacity;
  *array = NF_ARRAY_EMPTY;
}

static size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

static bool grow_to(nf_array *array, nf_account *account, size_t capacity) {
  capacity = round_up(capacity, capacity < NF_PAGES_FROM ? 64 : 4096);
  if (!nf_account_charge(account, capacity - array->capacity)) return false;
  uint8_t *data = nf_pages_realloc(array->capacity ? array->data : NULL, array->capacity, capacity);
  if (!data) {
    account->held -= capacity - array->capacity;
    return false;
  }
  array->data = data;
  array->capacity = capacity;
  return true;
}

bool nf_array_grow(nf_array *array, nf_account *account, size_t more) {
  account->exhausted = false;
  if (more > PTRDIFF_MAX - array->used - 4096) return false;
  size_t needed = array->used + more;
  /* Small arrays double; large ones take a quarter more. What does not fit with room to spare may still fit
   * without. */
  size_t roomy =
      array->capacity < NF_PAGES_FROM ? array->capacity * 2 : array->capacity + array->capacity / 4;
  if (roomy > needed && grow_to(array, account, roomy)) return true;
  account->exhausted = false;
  return grow_to(array, account, needed);
}
