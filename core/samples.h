/* Aggregated samples: one row for each pair of stack and label set, in the order in which they were first
 * seen, and the sums of their values.
 *
 * Most samples have few values that are not zero (cpu time here, an allocation there), so a row keeps only
 * the columns that it ever had, side by side in a common array of slots, and moves to a wider run of slots
 * when another column comes up. */
#ifndef NF_CORE_SAMPLES_H
#define NF_CORE_SAMPLES_H

#include "core/array.h"
#include "core/id_table.h"

/* With more sample types than this, rows keep all columns. */
#define NF_SAMPLE_COLUMNS_MOST 32

typedef struct nf_sample_row {
  uint32_t stack, labels;
  uint32_t columns; /* bit i: column i has a slot */
  uint32_t slot;    /* of the first one */
} nf_sample_row;

typedef struct nf_samples {
  nf_array rows;
  nf_array slots; /* int64_t */
  nf_id_table index;
  uint32_t n_values; /* of each sample */
  uint32_t free_runs[NF_SAMPLE_COLUMNS_MOST +
                     1]; /* by length: first slot + 1 of an unused run, whose content is the next */
} nf_samples;

void nf_samples_init(nf_samples *samples, uint32_t n_values);
void nf_samples_deinit(nf_samples *samples, nf_account *account);
void nf_samples_drop_index(nf_samples *samples, nf_account *account);

static inline uint32_t nf_samples_count(const nf_samples *samples) {
  return (uint32_t)NF_ROW_COUNT(samples->rows, nf_sample_row);
}

/* The row of a stack and a label set, or NF_ID_NONE. */
uint32_t nf_samples_find(const nf_samples *samples, uint32_t stack, uint32_t labels);

/* Makes room for one more row. */
bool nf_samples_reserve(nf_samples *samples, nf_account *account);

/* Adds a row that is not there, into reserved room. */
void nf_samples_insert(nf_samples *samples, uint32_t stack, uint32_t labels, const int64_t *values);

/* Adds values to those of a row; sums wrap around. Only if the row needs another column can it fail, for lack
 * of memory (never for the budget: what is there already may be added up), and then nothing has changed. */
bool nf_samples_accumulate(nf_samples *samples, nf_account *account, uint32_t id, const int64_t *values);

/* All values of a row, zeros included. */
void nf_samples_values(const nf_samples *samples, const nf_sample_row *row, int64_t *values);

/* The same as varints, n_values * NF_VARINT_MAX bytes at most; returns their end. */
uint8_t *nf_samples_put_values(const nf_samples *samples, const nf_sample_row *row, uint8_t *out);

#endif
