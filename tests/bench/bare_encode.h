/* How the bare engine writes a profile: pprof in pieces of 64 kB, each compressed as soon as it is full. */
#ifndef NF_BENCH_BARE_ENCODE_H
#define NF_BENCH_BARE_ENCODE_H

#include "tests/bench/bare_table.h"

typedef struct bare_key {
  uint32_t stack, label_set;
} bare_key;

typedef struct bare_timed {
  bare_key key;
  int64_t timestamp;
} bare_timed;

/* Encoded stacks and label sets, and where in those bytes each one is. */
typedef struct bare_rows {
  const buffer *stack_bytes, *stack_spans, *label_bytes, *label_spans;
} bare_rows;

enum encode_codec { ENCODE_LZ4, ENCODE_ZSTD };

void encode_begin(enum encode_codec codec);
void encode_bytes(const uint8_t *bytes, size_t len);
void encode_timeline(const bare_rows *rows, const buffer *timeline, uint32_t time_key);
void encode_aggregated(const bare_rows *rows, const buffer *keys, const buffer *values);
text encode_end(void); /* lives until encode_release */
void encode_release(void);

#endif
