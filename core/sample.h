/* What a caller hands to the engine. Everything is borrowed for the call; text is not checked yet.
 *
 * The structs are laid out as those of the public ABI, so that the facade passes arrays through without
 * copying (it asserts that at compile time); hence may_alias. */
#ifndef NF_CORE_SAMPLE_H
#define NF_CORE_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#define NF_SAME_BYTES __attribute__((may_alias))

/* UTF-8, not NUL-terminated; {NULL, 0} is empty. */
typedef struct NF_SAME_BYTES nf_str {
  const char *ptr;
  size_t len;
} nf_str;

typedef struct NF_SAME_BYTES nf_value_type {
  nf_str type, unit;
} nf_value_type;

typedef struct NF_SAME_BYTES nf_mapping {
  uint64_t memory_start, memory_limit, file_offset;
  nf_str filename, build_id;
} nf_mapping;

typedef struct NF_SAME_BYTES nf_function {
  nf_str name, system_name, filename;
  int64_t start_line;
} nf_function;

typedef struct NF_SAME_BYTES nf_location {
  nf_mapping mapping;
  nf_function function;
  uint64_t address;
  int64_t line;
} nf_location;

/* A text if `str` is not empty; otherwise a number. */
typedef struct NF_SAME_BYTES nf_label {
  nf_str key, str;
  int64_t num;
  nf_str num_unit;
} nf_label;

typedef struct nf_sample {
  const nf_location *locations; /* leaf first */
  size_t n_locations;
  const int64_t *values;
  size_t n_values;
  const nf_label *labels;
  size_t n_labels;
  int64_t timestamp; /* 0: none, aggregate */
} nf_sample;

#endif
