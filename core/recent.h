/* A small cache from what a caller passed (a hash of addresses) to the id that it was last found to be: a
 * guess, which its user verifies against interned bytes before believing it. Two ways a set; the older one
 * gives way.
 *
 * Guesses are not charged to a profile's account and need not be kept: without memory there is simply none.
 */
#ifndef NF_CORE_RECENT_H
#define NF_CORE_RECENT_H

#include "core/alloc.h"
#include "core/hash.h"

typedef struct nf_recent {
  uint32_t *ids;  /* pairs; 0: none, else an id + 1 */
  uint32_t sets;  /* a power of two, or 0 */
  unsigned shift; /* 64 - log2(sets) */
} nf_recent;

static inline void nf_recent_deinit(nf_recent *recent) {
  nf_pages_free(recent->ids, (size_t)recent->sets * 2 * sizeof(uint32_t));
  *recent = (nf_recent){0};
}

/* Keeps at least `ids` ids apart, up to `most`. Growing forgets. */
void nf_recent_fit(nf_recent *recent, uint32_t ids, uint32_t most);

/* The two guesses for a hash; NULL if there are none at all. */
static inline uint32_t *nf_recent_set(const nf_recent *recent, uint64_t hash) {
  return recent->sets ? recent->ids + (hash >> recent->shift) * 2 : NULL;
}

static inline void nf_recent_remember(const nf_recent *recent, uint64_t hash, uint32_t id) {
  uint32_t *set = nf_recent_set(recent, hash);
  if (!set || set[0] == id + 1) return;
  set[1] = set[0];
  set[0] = id + 1;
}

#endif
