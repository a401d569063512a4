#include "core/recent.h"

void nf_recent_fit(nf_recent *recent, uint32_t ids, uint32_t most) {
  if (ids > most) ids = most;
  if (recent->sets >= ids && recent->sets) return;
  uint32_t sets = recent->sets ? recent->sets : 32;
  while (sets < ids) sets *= 2;
  uint32_t *grown = nf_pages_alloc((size_t)sets * 2 * sizeof(uint32_t));
  if (!grown) return;
  nf_recent_deinit(recent);
  *recent = (nf_recent){grown, sets, 64 - (unsigned)__builtin_ctz(sets)};
}
