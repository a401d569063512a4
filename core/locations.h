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
#include "core/varint.h"

typedef struct nf_mapping_row {
  uint64_t memory_start, memory_limit, file_offset;
  uint32_t filename, build_id;
} nf_mapping_row;

typedef struct nf_function_row {
  uint32_t name, system_name, filename;
  uint32_t start_line[2]; /* the halves of an int64_t, so that rows are 20 bytes */
} nf_function_row;

/* Most frames have no mapping, address, system name or start line. Such a row is "plain", and says all that there is to compare
 * with a frame without looking elsewhere. The others are "wide": `name_len` is NF_LOCATION_WIDE, and `line` an index of `wide`.
 * Row 0 is no location and equals no frame. */
typedef struct nf_location_row {
  uint32_t line;
  uint16_t name_len, filename_len;
  uint32_t name, filename; /* where they begin in the bytes of the string table */
  uint32_t varint;         /* the id as a stack has it: nf_location_varint */
  uint32_t function;
} nf_location_row;

#define NF_LOCATION_WIDE UINT16_MAX

/* Ids stay below this: see nf_location_token. */
#define NF_LOCATION_LIMIT (UINT32_MAX / (uint32_t)sizeof(nf_location_row))

typedef struct nf_location_wide {
  uint64_t address;
  int64_t line;
  uint32_t mapping;
} nf_location_wide;

typedef struct nf_locations {
  nf_array rows, wide, functions, mappings;
  nf_id_table location_index, function_index, mapping_index;
  uint32_t plain_mapping; /* id of the all-zero mapping, 0: not there yet */
  nf_recent recent;
} nf_locations;

/* A location with everything in its place. */
typedef struct nf_location_view {
  uint32_t mapping, function;
  uint64_t address;
  int64_t line;
} nf_location_view;

bool nf_locations_init(nf_locations *locations, nf_account *account);
void nf_locations_deinit(nf_locations *locations, nf_account *account);
void nf_locations_drop_indexes(nf_locations *locations, nf_account *account);

static inline uint32_t nf_locations_count(const nf_locations *locations) {
  return (uint32_t)NF_ROW_COUNT(locations->rows, nf_location_row) - 1;
}

nf_location_view nf_locations_get(const nf_locations *locations, uint32_t id);

static inline int64_t nf_function_start_line(const nf_function_row *row) {
  return (int64_t)((uint64_t)row->start_line[1] << 32 | row->start_line[0]);
}

/* ---- finding ---- */

/* Not zero for a frame that needs a wide row, as does one whose line or names are too long for a plain one. */
static inline uint64_t nf_location_oddness(const nf_location *frame) {
  return frame->mapping.memory_start | frame->mapping.memory_limit | frame->mapping.file_offset |
         frame->mapping.filename.len | frame->mapping.build_id.len | frame->function.system_name.len |
         (uint64_t)frame->function.start_line | frame->address;
}

static inline bool nf_location_needs_wide(const nf_location *frame) {
  return nf_location_oddness(frame) || (uint64_t)frame->line > UINT32_MAX ||
         frame->function.name.len >= NF_LOCATION_WIDE || frame->function.filename.len > UINT16_MAX;
}

static inline uint64_t nf_location_pointer_hash(const nf_location *frame) {
  uint64_t name = (uintptr_t)frame->function.name.ptr, filename = (uintptr_t)frame->function.filename.ptr;
  return (name ^ (filename << 21 | filename >> 43) ^ (uint64_t)frame->line << 40) * NF_HASH_K1;
}

/* What the cache holds of a location: where its row is among the rows, in bytes. */
static inline uint32_t nf_location_token(uint32_t id) { return id * (uint32_t)sizeof(nf_location_row); }

/* What the hot step reads, gathered so that a loop over frames keeps it in registers. Good until something is added. */
typedef struct nf_location_finder {
  nf_recent recent;
  const uint8_t *rows;
  const uint8_t *text;
} nf_location_finder;

static inline nf_location_finder nf_location_finder_make(const nf_locations *locations,
                                                         const nf_bytes_table *strings) {
  return (nf_location_finder){locations->recent, locations->rows.data, strings->bytes.data};
}

/* Compares file names; see nf_paths_equal. */
typedef bool nf_paths_equal_fn(const void *left, const void *right, size_t len);

/* The row of a plain frame that was seen lately, or NULL. */
NF_INLINE const nf_location_row *nf_location_finder_guess(nf_location_finder finder, const nf_location *frame,
                                                          nf_paths_equal_fn *paths_equal) {
#define ROW(token) ((const nf_location_row *)(const void *)(finder.rows + (token)))
  const nf_str name = frame->function.name, filename = frame->function.filename;
  uint32_t *set = nf_recent_set(&finder.recent, nf_location_pointer_hash(frame)), token = set[0];
  const nf_location_row *row = ROW(token);
  if (row->line != (uint64_t)frame->line || row->name_len != name.len) {
    unsigned way = 1;
    while (row = ROW(set[way]), row->line != (uint64_t)frame->line || row->name_len != name.len)
      if (++way == NF_RECENT_WAYS) return NULL;
    set[0] = set[way]; /* what comes often is found first */
    set[way] = token;
  }
#undef ROW
  if ((row->filename_len ^ filename.len) | nf_location_oddness(frame)) return NULL;
  if (!name.ptr) return NULL;
  if (!nf_words_equal(finder.text + row->name, name.ptr, name.len)) return NULL;
  if (!filename.ptr) return NULL;
  if (!paths_equal(finder.text + row->filename, filename.ptr, filename.len)) return NULL;
  return row;
}

/* Writes the id of a row as a varint; two bytes at least, whatever it takes. */
static inline uint8_t *nf_location_varint(uint8_t *out, const nf_location_row *row) {
  uint32_t varint = row->varint;
  if (__builtin_expect(varint >> 30, 0)) return nf_varint_put(out, varint & 0x3fffffff);
  out[0] = (uint8_t)varint;
  out[1] = (uint8_t)(varint >> 8);
  return out + (varint >> 16);
}

/* How a row keeps an id: its two bytes and their number; beyond 14 bits, the id itself with bit 30. */
static inline uint32_t nf_location_varint_of(uint32_t id) {
  if (id >> 14) return id | (uint32_t)1 << 30;
  return id < 0x80 ? id | (uint32_t)1 << 16 : (id & 0x7f) | 0x80 | id >> 7 << 8 | (uint32_t)2 << 16;
}

/* The id of any frame, or 0 if it is not there yet. */
uint32_t nf_locations_find(nf_locations *locations, const nf_bytes_table *strings, const nf_location *frame);

/* ---- adding ---- */

/* Makes room for `frames` new frames, `wide` of them in need of wide rows; their strings are the caller's
 * matter. */
bool nf_locations_reserve(nf_locations *locations, nf_account *account, size_t frames, size_t wide);

/* Finds or adds a frame, and its strings, into reserved room. The text has been checked. */
uint32_t nf_locations_intern(nf_locations *locations, nf_bytes_table *strings, const nf_location *frame);

#endif
