/* Mappings, functions and locations: rows of ids, each kept once. Ids are those of the encoded profile,
 * from 1.
 *
 * Finding a frame (nf_locations_find) is the engine's hottest step, and goes from cheap to dear:
 *   1. by the caller's pointers, through a small cache; what is found is compared byte by byte, so that a
 * pointer that was reused for other text never lies;
 *   2. by content, through the tables of strings, functions and locations.
 * It adds nothing. A frame that is not there is added in two steps, so that adding cannot fail half-way:
 * nf_locations_reserve, then nf_locations_intern. */
#ifndef NF_CORE_LOCATIONS_H
#define NF_CORE_LOCATIONS_H

#include "core/bytes_table.h"
#include "core/recent.h"
#include "core/sample.h"

typedef struct nf_mapping_row {
  uint64_t memory_start, memory_limit, file_offset;
  uint32_t filename, build_id;
} nf_mapping_row;

typedef struct nf_function_row {
  uint32_t name, system_name, filename;
  uint32_t start_line[2]; /* the halves of an int64_t, so that rows are 20 bytes */
} nf_function_row;

/* Most frames have no mapping, address, system name or start line: such a row is "plain" and says all that
 * there is to compare. The others have NF_LOCATION_WIDE in `line`, and the rest of it is an index of `wide`.
 */
typedef struct nf_location_row {
  uint32_t function, name, filename;
  uint32_t line;
} nf_location_row;

#define NF_LOCATION_WIDE ((uint32_t)1 << 31)

typedef struct nf_location_wide {
  uint64_t address;
  int64_t line;
  uint32_t mapping;
} nf_location_wide;

typedef struct nf_locations {
  nf_array rows, wide, functions, mappings;
  nf_id_table location_index, function_index, mapping_index; /* of ids - 1 */
  uint32_t plain_mapping; /* id of the all-zero mapping, 0: not there yet */
  nf_recent recent;
} nf_locations;

/* A location with everything in its place. */
typedef struct nf_location_view {
  uint32_t mapping, function;
  uint64_t address;
  int64_t line;
} nf_location_view;

void nf_locations_init(nf_locations *locations);
void nf_locations_deinit(nf_locations *locations, nf_account *account);
void nf_locations_drop_indexes(nf_locations *locations, nf_account *account);

static inline uint32_t nf_locations_count(const nf_locations *locations) {
  return (uint32_t)NF_ROW_COUNT(locations->rows, nf_location_row);
}

nf_location_view nf_locations_get(const nf_locations *locations, uint32_t id);

static inline int64_t nf_function_start_line(const nf_function_row *row) {
  return (int64_t)((uint64_t)row->start_line[1] << 32 | row->start_line[0]);
}

/* The id of a frame by its content, or 0; remembers the pointers. */
uint32_t nf_locations_find_content(nf_locations *locations, const nf_bytes_table *strings,
                                   const nf_location *frame, uint64_t pointer_hash);

/* True if location `id` is this frame, whatever it holds. */
bool nf_locations_equal(const nf_locations *locations, const nf_bytes_table *strings, uint32_t id,
                        const nf_location *frame);

static inline uint64_t nf_location_pointer_hash(const nf_location *frame) {
  uint64_t h =
      (uintptr_t)frame->function.name.ptr * NF_HASH_K1 + (uintptr_t)frame->function.filename.ptr * NF_HASH_K2;
  return (h ^ (uint64_t)frame->line ^ frame->address << 20) * NF_HASH_K3;
}

/* Zero for a frame that a plain row may stand for. */
static inline uint64_t nf_location_oddness(const nf_location *frame) {
  return frame->mapping.memory_start | frame->mapping.memory_limit | frame->mapping.file_offset |
         frame->mapping.filename.len | frame->mapping.build_id.len | frame->function.system_name.len |
         (uint64_t)frame->function.start_line | frame->address | (uint64_t)frame->line >> 31;
}

static inline bool nf_locations_equal_plain(const nf_locations *locations, const nf_bytes_table *strings,
                                            uint32_t id, const nf_location *frame) {
  const nf_location_row *row = NF_ROWS(locations->rows, nf_location_row) + (id - 1);
  return row->line == (uint64_t)frame->line &&
         nf_bytes_table_equal(strings, row->name, frame->function.name.ptr, frame->function.name.len) &&
         nf_bytes_table_equal(strings, row->filename, frame->function.filename.ptr,
                              frame->function.filename.len);
}

/* The id of a frame, or 0 if it is not there yet. */
static inline uint32_t nf_locations_find(nf_locations *locations, const nf_bytes_table *strings,
                                         const nf_location *frame) {
  uint64_t hash = nf_location_pointer_hash(frame);
  uint32_t *guess = nf_recent_set(&locations->recent, hash);
  if (guess) {
    if (nf_location_oddness(frame) == 0) {
      if (guess[0] && nf_locations_equal_plain(locations, strings, guess[0], frame)) return guess[0];
      if (guess[1] && nf_locations_equal_plain(locations, strings, guess[1], frame)) return guess[1];
    } else {
      if (guess[0] && nf_locations_equal(locations, strings, guess[0], frame)) return guess[0];
      if (guess[1] && nf_locations_equal(locations, strings, guess[1], frame)) return guess[1];
    }
  }
  return nf_locations_find_content(locations, strings, frame, hash);
}

/* Makes room for `frames` new frames, `odd` of them with nf_location_oddness; their strings are the caller's
 * matter. */
bool nf_locations_reserve(nf_locations *locations, nf_account *account, size_t frames, size_t odd);

/* Finds or adds a frame, and its strings, into reserved room. The text has been checked. */
uint32_t nf_locations_intern(nf_locations *locations, nf_bytes_table *strings, const nf_location *frame);

#endif
