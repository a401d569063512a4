#include "core/locations.h"

/* The cache has a set for each location, up to this many (512 KiB). */
#define RECENT_SETS_MOST (1u << 15)

bool nf_locations_init(nf_locations *locations, nf_account *account) {
  *locations = (nf_locations){0};
  nf_recent_init(&locations->recent);
  nf_id_table_init(&locations->location_index);
  nf_id_table_init(&locations->function_index);
  nf_id_table_init(&locations->mapping_index);
  nf_location_row none = {.name_len = NF_LOCATION_WIDE};
  if (!nf_array_reserve(&locations->rows, account, sizeof none)) return false;
  nf_array_append(&locations->rows, &none, sizeof none);
  return true;
}

void nf_locations_drop_indexes(nf_locations *locations, nf_account *account) {
  nf_id_table_deinit(&locations->location_index, account);
  nf_id_table_deinit(&locations->function_index, account);
  nf_id_table_deinit(&locations->mapping_index, account);
  nf_recent_deinit(&locations->recent);
}

void nf_locations_deinit(nf_locations *locations, nf_account *account) {
  nf_locations_drop_indexes(locations, account);
  nf_array_deinit(&locations->rows, account);
  nf_array_deinit(&locations->wide, account);
  nf_array_deinit(&locations->functions, account);
  nf_array_deinit(&locations->mappings, account);
}

/* ---- mappings ---- */

static const nf_mapping_row *mapping_at(const nf_locations *l, uint32_t index) {
  return NF_ROWS(l->mappings, nf_mapping_row) + index;
}

static uint64_t hash_mapping(const nf_mapping_row *row) {
  uint64_t h = nf_hash_pair(row->memory_start, row->memory_limit);
  return nf_hash_pair(h ^ row->file_offset, (uint64_t)row->filename << 32 | row->build_id);
}

static uint64_t hash_of_mapping(const void *owner, uint32_t index) {
  return hash_mapping(mapping_at(owner, index));
}

static uint32_t find_mapping(const nf_locations *l, const nf_mapping_row *row) {
  nf_id_probe probe = nf_id_table_probe(&l->mapping_index, hash_mapping(row));
  for (uint32_t index; nf_id_probe_next(&probe, &index);) {
    const nf_mapping_row *at = mapping_at(l, index);
    if (at->memory_start == row->memory_start && at->memory_limit == row->memory_limit &&
        at->file_offset == row->file_offset && at->filename == row->filename && at->build_id == row->build_id)
      return index + 1;
  }
  return 0;
}

static bool is_zero_mapping(const nf_mapping_row *row) {
  return !(row->memory_start | row->memory_limit | row->file_offset | row->filename | row->build_id);
}

static uint32_t intern_mapping(nf_locations *l, const nf_mapping_row *row) {
  uint32_t id = find_mapping(l, row);
  if (id) return id;
  uint32_t index = (uint32_t)NF_ROW_COUNT(l->mappings, nf_mapping_row);
  nf_array_append(&l->mappings, row, sizeof *row);
  nf_id_table_insert(&l->mapping_index, hash_mapping(row), index);
  if (is_zero_mapping(row)) l->plain_mapping = index + 1;
  return index + 1;
}

/* ---- functions ---- */

static const nf_function_row *function_at(const nf_locations *l, uint32_t index) {
  return NF_ROWS(l->functions, nf_function_row) + index;
}

static uint64_t hash_function(const nf_function_row *row) {
  uint64_t h = nf_hash_pair((uint64_t)row->name << 32 | row->filename, row->system_name);
  return nf_hash_pair(h, (uint64_t)nf_function_start_line(row));
}

static uint64_t hash_of_function(const void *owner, uint32_t index) {
  return hash_function(function_at(owner, index));
}

static uint32_t find_function(const nf_locations *l, const nf_function_row *row) {
  nf_id_probe probe = nf_id_table_probe(&l->function_index, hash_function(row));
  for (uint32_t index; nf_id_probe_next(&probe, &index);)
    if (memcmp(function_at(l, index), row, sizeof *row) == 0) return index + 1;
  return 0;
}

static uint32_t intern_function(nf_locations *l, const nf_function_row *row) {
  uint32_t id = find_function(l, row);
  if (id) return id;
  uint32_t index = (uint32_t)NF_ROW_COUNT(l->functions, nf_function_row);
  nf_array_append(&l->functions, row, sizeof *row);
  nf_id_table_insert(&l->function_index, hash_function(row), index);
  return index + 1;
}

/* ---- locations ---- */

nf_location_view nf_locations_get(const nf_locations *l, uint32_t id) {
  const nf_location_row *row = NF_ROWS(l->rows, nf_location_row) + id;
  if (row->name_len != NF_LOCATION_WIDE)
    return (nf_location_view){l->plain_mapping, row->function, 0, row->line};
  const nf_location_wide *wide = NF_ROWS(l->wide, nf_location_wide) + row->line;
  return (nf_location_view){wide->mapping, row->function, wide->address, wide->line};
}

/* The mapping of a plain row is implied, so it is left out of the hash: few frames differ in nothing else. */
static uint64_t hash_location(uint32_t function, uint64_t address, int64_t line) {
  return nf_hash_pair((uint64_t)function << 32 ^ address, (uint64_t)line);
}

static uint64_t hash_of_location(const void *owner, uint32_t id) {
  nf_location_view view = nf_locations_get(owner, id);
  return hash_location(view.function, view.address, view.line);
}

static uint32_t find_location(const nf_locations *l, const nf_location_view *view) {
  nf_id_probe probe =
      nf_id_table_probe(&l->location_index, hash_location(view->function, view->address, view->line));
  for (uint32_t id; nf_id_probe_next(&probe, &id);) {
    nf_location_view at = nf_locations_get(l, id);
    if (at.function == view->function && at.line == view->line && at.address == view->address &&
        at.mapping == view->mapping)
      return id;
  }
  return 0;
}

static uint32_t intern_location(nf_locations *l, const nf_bytes_table *strings, const nf_location_view *view,
                                bool wide) {
  uint32_t id = find_location(l, view);
  if (id) return id;
  id = nf_locations_count(l) + 1;
  const nf_function_row *function = function_at(l, view->function - 1);
  const uint32_t *offset = NF_ROWS(strings->offsets, uint32_t);
  nf_location_row row = {
      .function = view->function, .name_len = NF_LOCATION_WIDE, .varint = nf_location_varint_of(id)};
  if (wide) {
    row.line = (uint32_t)NF_ROW_COUNT(l->wide, nf_location_wide);
    nf_location_wide rest = {view->address, view->line, view->mapping};
    nf_array_append(&l->wide, &rest, sizeof rest);
  } else {
    row.line = (uint32_t)view->line;
    row.name = offset[function->name];
    row.name_len = (uint16_t)(offset[function->name + 1] - row.name);
    row.filename = offset[function->filename];
    row.filename_len = (uint16_t)(offset[function->filename + 1] - row.filename);
  }
  nf_array_append(&l->rows, &row, sizeof row);
  nf_id_table_insert(&l->location_index, hash_location(view->function, view->address, view->line), id);
  return id;
}

/* ---- frames ---- */

static uint32_t find_string(const nf_bytes_table *strings, nf_str s) {
  if (!s.len) return 0;
  return s.ptr ? nf_bytes_table_find(strings, s.ptr, s.len, nf_hash_bytes(s.ptr, s.len)) : NF_ID_NONE;
}

static nf_function_row function_row(uint32_t name, uint32_t system_name, uint32_t filename,
                                    int64_t start_line) {
  return (nf_function_row){
      name, system_name, filename, {(uint32_t)(uint64_t)start_line, (uint32_t)((uint64_t)start_line >> 32)}};
}

static uint32_t find_content(const nf_locations *l, const nf_bytes_table *strings, const nf_location *frame) {
  const nf_mapping *m = &frame->mapping;
  const nf_function *f = &frame->function;
  uint32_t name = find_string(strings, f->name);
  if (name == NF_ID_NONE) return 0;
  uint32_t filename = find_string(strings, f->filename);
  if (filename == NF_ID_NONE) return 0;
  /* The others may be "none", which is in no row. */
  nf_function_row function =
      function_row(name, find_string(strings, f->system_name), filename, f->start_line);
  nf_location_view view = {
      .function = find_function(l, &function), .address = frame->address, .line = frame->line};
  if (!view.function) return 0;
  nf_mapping_row mapping = {m->memory_start, m->memory_limit, m->file_offset,
                            find_string(strings, m->filename), find_string(strings, m->build_id)};
  view.mapping = is_zero_mapping(&mapping) ? l->plain_mapping : find_mapping(l, &mapping);
  return view.mapping ? find_location(l, &view) : 0;
}

static bool equal_string(const nf_bytes_table *strings, uint32_t id, nf_str s) {
  return nf_bytes_table_equal(strings, id, s.ptr, s.len);
}

/* True if location `id` is this frame, whatever either holds. */
static bool equal(const nf_locations *l, const nf_bytes_table *strings, uint32_t id,
                  const nf_location *frame) {
  nf_location_view view = nf_locations_get(l, id);
  const nf_function_row *function = function_at(l, view.function - 1);
  const nf_mapping_row *mapping = mapping_at(l, view.mapping - 1);
  return view.address == frame->address && view.line == frame->line &&
         nf_function_start_line(function) == frame->function.start_line &&
         mapping->memory_start == frame->mapping.memory_start &&
         mapping->memory_limit == frame->mapping.memory_limit &&
         mapping->file_offset == frame->mapping.file_offset &&
         equal_string(strings, function->name, frame->function.name) &&
         equal_string(strings, function->system_name, frame->function.system_name) &&
         equal_string(strings, function->filename, frame->function.filename) &&
         equal_string(strings, mapping->filename, frame->mapping.filename) &&
         equal_string(strings, mapping->build_id, frame->mapping.build_id);
}

/* Frames with addresses differ in little else. */
static uint64_t pointer_hash(const nf_location *frame) {
  return nf_location_pointer_hash(frame) ^ frame->address * NF_HASH_K1;
}

uint32_t nf_locations_find(nf_locations *l, const nf_bytes_table *strings, const nf_location *frame) {
  uint64_t hash = pointer_hash(frame);
  if (nf_location_needs_wide(frame)) {
    const uint32_t *set = nf_recent_set(&l->recent, hash);
    for (int way = 0; way < NF_RECENT_WAYS; way++)
      if (set[way] && equal(l, strings, set[way] / nf_location_token(1), frame))
        return set[way] / nf_location_token(1);
  }
  uint32_t id = find_content(l, strings, frame);
  if (id) nf_recent_remember(&l->recent, hash, nf_location_token(id));
  return id;
}

bool nf_locations_reserve(nf_locations *l, nf_account *account, size_t frames, size_t wide) {
  account->exhausted = false;
  if (frames >= NF_LOCATION_LIMIT - nf_locations_count(l)) return false;
  uint32_t n = (uint32_t)frames;
  bool ok = nf_array_reserve(&l->rows, account, frames * sizeof(nf_location_row)) &&
            nf_array_reserve(&l->wide, account, wide * sizeof(nf_location_wide)) &&
            nf_array_reserve(&l->functions, account, frames * sizeof(nf_function_row)) &&
            nf_array_reserve(&l->mappings, account, (wide + 1) * sizeof(nf_mapping_row)) &&
            nf_id_table_reserve(&l->location_index, account, n, hash_of_location, l) &&
            nf_id_table_reserve(&l->function_index, account, n, hash_of_function, l) &&
            nf_id_table_reserve(&l->mapping_index, account, (uint32_t)wide + 1, hash_of_mapping, l);
  if (ok) nf_recent_fit(&l->recent, nf_locations_count(l) + n, RECENT_SETS_MOST);
  return ok;
}

static uint32_t intern_string(nf_bytes_table *strings, nf_str s) {
  return s.len ? nf_bytes_table_intern(strings, s.ptr, s.len) : 0;
}

uint32_t nf_locations_intern(nf_locations *l, nf_bytes_table *strings, const nf_location *frame) {
  const nf_mapping *m = &frame->mapping;
  const nf_function *f = &frame->function;
  /* The order in which strings get their ids is part of what we promise. */
  nf_mapping_row mapping = {
      .memory_start = m->memory_start, .memory_limit = m->memory_limit, .file_offset = m->file_offset};
  mapping.filename = intern_string(strings, m->filename);
  mapping.build_id = intern_string(strings, m->build_id);
  uint32_t name = intern_string(strings, f->name);
  uint32_t system_name = intern_string(strings, f->system_name);
  uint32_t filename = intern_string(strings, f->filename);
  nf_function_row function = function_row(name, system_name, filename, f->start_line);
  nf_location_view view = {.address = frame->address, .line = frame->line};
  view.mapping = intern_mapping(l, &mapping);
  view.function = intern_function(l, &function);
  uint32_t id = intern_location(l, strings, &view, nf_location_needs_wide(frame));
  nf_recent_remember(&l->recent, pointer_hash(frame), nf_location_token(id));
  return id;
}
