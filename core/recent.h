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
  uint32_t *ids;  /* pairs; 0: none */
  uint32_t sets;  /* a power of two, or 0 */
  unsigned shift; /* a hash shifted right by this is the number of a set */
} nf_recent;

void nf_recent_init(nf_recent *recent);
void nf_recent_deinit(nf_recent *recent);

/* Keeps about `ids` ids apart, up to `most`. Growing forgets. */
void nf_recent_fit(nf_recent *recent, uint32_t ids, uint32_t most);

/* The two guesses for a hash. */
static inline const uint32_t *nf_recent_set(const nf_recent *recent, uint64_t hash) {
  return recent->ids + (hash >> recent->shift) * 2;
}

/* `id` is not 0. */
static inline void nf_recent_remember(const nf_recent *recent, uint64_t hash, uint32_t id) {
  if (!recent->sets) return;
  uint32_t *set = recent->ids + (hash >> recent->shift) * 2;
  if (set[0] == id) return;
  set[1] = set[0];
  set[0] = id;
}

#endif
