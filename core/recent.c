#include "core/recent.h"

/* The sets of a cache without memory: never written. */
static uint32_t nothing[4];

void nf_recent_init(nf_recent *recent) { *recent = (nf_recent){.ids = nothing, .shift = 63}; }

void nf_recent_deinit(nf_recent *recent) {
  if (recent->sets) nf_pages_free(recent->ids, (size_t)recent->sets * 2 * sizeof(uint32_t));
  nf_recent_init(recent);
}

void nf_recent_fit(nf_recent *recent, uint32_t ids, uint32_t most) {
  if (ids > most) ids = most;
  if (recent->sets && recent->sets >= ids) return;
  uint32_t sets = recent->sets ? recent->sets : 32;
  while (sets < ids) sets *= 2;
  uint32_t *grown = nf_pages_alloc((size_t)sets * 2 * sizeof(uint32_t));
  if (!grown) return;
  nf_recent_deinit(recent);
  *recent = (nf_recent){grown, sets, 64 - (unsigned)__builtin_ctz(sets)};
}
