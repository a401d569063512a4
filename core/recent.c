#include "core/recent.h"

#include <string.h>

/* The set of a cache without memory: never written. */
static uint32_t nothing[NF_RECENT_WAYS];

void nf_recent_init(nf_recent *recent) { *recent = (nf_recent){.ids = nothing}; }

void nf_recent_deinit(nf_recent *recent) {
  if (recent->sets) nf_pages_free(recent->ids, recent->sets * NF_RECENT_SET_BYTES);
  nf_recent_init(recent);
}

void nf_recent_fit(nf_recent *recent, uint32_t ids, uint32_t most) {
  if (ids > most) ids = most;
  if (recent->sets && recent->sets >= ids) return;
  uint32_t sets = recent->sets ? recent->sets : 16;
  while (sets < ids) sets *= 2;
  uint32_t *grown = nf_pages_alloc(sets * NF_RECENT_SET_BYTES);
  if (!grown) return;
  /* The number of a set gets more bits at its upper end. Which ones they are for a guess is not known: it goes to all of its new sets. */
  size_t old = recent->sets * NF_RECENT_SET_BYTES;
  for (size_t at = 0; old && at < sets * NF_RECENT_SET_BYTES; at += old)
    memcpy((char *)grown + at, recent->ids, old);
  nf_recent_deinit(recent);
  *recent = (nf_recent){grown, sets, (sets - 1) * NF_RECENT_SET_BYTES};
}
