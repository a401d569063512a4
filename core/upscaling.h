/* Upscaling: rules that say how much more than what was seen some values stand for, and their application to
 * a sample.
 *
 * Rules belong to a pair of strings, the name and the value of a label; the pair of two empty ones stands for
 * every sample
 * ("by value"). Rules that could meet on one value are refused. */
#ifndef NF_CORE_UPSCALING_H
#define NF_CORE_UPSCALING_H

#include "core/bytes_table.h"
#include "core/error.h"

typedef struct nf_upscaling_info {
  bool poisson;
  /* poisson */
  size_t sum_offset, count_offset;
  uint64_t distance;
  /* proportional */
  double scale;
} nf_upscaling_info;

typedef struct nf_upscaling_rule {
  uint32_t name, value; /* strings of the profile */
  nf_upscaling_info info;
  uint32_t next; /* rule of the same pair + 1 */
  uint32_t n_offsets;
  size_t offsets; /* index of the first one */
} nf_upscaling_rule;

typedef struct nf_upscaling {
  nf_array rules;
  nf_array offsets;  /* uint32_t, sorted within a rule */
  nf_id_table index; /* of the first rule of each pair */
} nf_upscaling;

void nf_upscaling_init(nf_upscaling *upscaling);
void nf_upscaling_deinit(nf_upscaling *upscaling, nf_account *account);

static inline bool nf_upscaling_empty(const nf_upscaling *upscaling) { return upscaling->rules.used == 0; }

/* The checks that come before the rule's strings are interned. */
bool nf_upscaling_check(const nf_upscaling_info *info, uint64_t total_sampled, uint64_t total_real,
                        nf_error *error);

/* Makes room for one more rule. */
bool nf_upscaling_reserve(nf_upscaling *upscaling, nf_account *account, size_t n_offsets);

/* Adds a rule into reserved room, unless an offset does not exist or it collides with one that is there. */
bool nf_upscaling_add(nf_upscaling *upscaling, const nf_bytes_table *strings, uint32_t name, uint32_t value,
                      const nf_upscaling_info *info, const size_t *offsets, size_t n_offsets, size_t n_values,
                      nf_error *error);

/* Applies the rules of one pair to the values of a sample. */
void nf_upscaling_apply(const nf_upscaling *upscaling, uint32_t name, uint32_t value, int64_t *values);

#endif
