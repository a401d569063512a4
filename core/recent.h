/* A small cache from what a caller passed (a hash of addresses) to the id that it was last found to be: a guess, which its user
 * verifies against interned bytes before believing it. Four ways a set; the oldest one gives way.
 *
 * Guesses are not charged to a profile's account and need not be kept: without memory there are simply none. */
#ifndef NF_CORE_RECENT_H
#define NF_CORE_RECENT_H

#include "core/alloc.h"
#include "core/hash.h"

#define NF_RECENT_WAYS 4

typedef struct nf_recent {
  uint32_t *ids; /* NF_RECENT_WAYS a set; 0: none */
  uint32_t sets; /* a power of two, or 0 */
  size_t mask;   /* of the offsets of sets, in bytes */
} nf_recent;

void nf_recent_init(nf_recent *recent);
void nf_recent_deinit(nf_recent *recent);

/* Keeps about `ids` ids apart, up to `most`. */
void nf_recent_fit(nf_recent *recent, uint32_t ids, uint32_t most);

#define NF_RECENT_SET_BYTES (NF_RECENT_WAYS * sizeof(uint32_t))

/* The guesses for a hash. */
static inline uint32_t *nf_recent_set(const nf_recent *recent, uint64_t hash) {
  return (uint32_t *)((char *)recent->ids + (hash >> 40 & recent->mask));
}

/* Puts `id`, which is not 0, in front of its set. */
static inline void nf_recent_remember(const nf_recent *recent, uint64_t hash, uint32_t id) {
  if (!recent->sets) return;
  uint32_t *set = nf_recent_set(recent, hash);
  int way = 0;
  while (way < NF_RECENT_WAYS - 1 && set[way] != id) way++;
  for (; way > 0; way--) set[way] = set[way - 1];
  set[0] = id;
}

#endif
