/* Samples with a timestamp, each kept on its own, in the order in which they came: a column of bytes, about a
 * dozen for a sample.
 *
 * One record is: its shape; stack; label set; timestamp; values. Stack is a varint; label set and timestamp
 * are varints of their distance from those before. A shape says for each value how many bytes it has in the
 * record: none for 0 and for 1. Few shapes occur, so they are numbered, and the first byte of a record is the
 * number. */
#ifndef NF_CORE_TIMELINE_H
#define NF_CORE_TIMELINE_H

#include "core/bytes_table.h"

typedef struct nf_timeline {
  nf_array records;
  nf_bytes_table shapes;
  uint64_t count;
  uint32_t n_values;
  uint32_t newest_labels; /* the highest id so far: sets are used most soon after they come up */
  int64_t last_timestamp;
} nf_timeline;

bool nf_timeline_init(nf_timeline *timeline, nf_account *account, uint32_t n_values);
void nf_timeline_deinit(nf_timeline *timeline, nf_account *account);

/* Makes room for one more record. */
bool nf_timeline_reserve(nf_timeline *timeline, nf_account *account);

/* Appends a record into reserved room. */
void nf_timeline_append(nf_timeline *timeline, uint32_t stack, uint32_t labels, int64_t timestamp,
                        const int64_t *values);

/* Reads the records in order. */
typedef struct nf_timeline_reader {
  const nf_timeline *timeline;
  const uint8_t *next;
  uint64_t left;
  uint32_t newest_labels;
  uint32_t stack, labels; /* of the record that was read last */
  int64_t timestamp;
} nf_timeline_reader;

nf_timeline_reader nf_timeline_read(const nf_timeline *timeline);

/* False at the end. `values` has room for all of them. */
bool nf_timeline_next(nf_timeline_reader *reader, int64_t *values);

#endif
