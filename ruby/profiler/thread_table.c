#include "thread_table.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST_INDEX 64

static size_t place_of(VALUE thread, size_t index_size) {
  return (size_t)(((uint64_t)thread >> 3) * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (index_size - 1);
}

static void put(nf_thread_table *table, size_t position) {
  size_t place = place_of(table->entries[position]->thread, table->index_size);
  while (table->index[place] != 0) place = (place + 1) & (table->index_size - 1);
  table->index[place] = position + 1;
}

static bool rebuild_index(nf_thread_table *table, size_t index_size) {
  if (index_size != table->index_size) {
    size_t *index = malloc(index_size * sizeof(*index));
    if (index == NULL) return false;
    free(table->index);
    table->index = index;
    table->index_size = index_size;
  }
  memset(table->index, 0, table->index_size * sizeof(*table->index));
  for (size_t i = 0; i < table->count; i++) put(table, i);
  return true;
}

static void drop(nf_thread_entry *entry) {
  free(entry->birthplace);
  free(entry);
}

void nf_thread_table_clear(nf_thread_table *table) {
  for (size_t i = 0; i < table->count; i++) drop(table->entries[i]);
  table->count = 0;
  if (table->index) memset(table->index, 0, table->index_size * sizeof(*table->index));
}

void nf_thread_table_deinit(nf_thread_table *table) {
  nf_thread_table_clear(table);
  free(table->entries);
  free(table->index);
  memset(table, 0, sizeof(*table));
}

nf_thread_entry *nf_thread_table_find(const nf_thread_table *table, VALUE thread) {
  if (table->count == 0) return NULL;
  for (size_t place = place_of(thread, table->index_size); table->index[place] != 0;
       place = (place + 1) & (table->index_size - 1)) {
    nf_thread_entry *entry = table->entries[table->index[place] - 1];
    if (entry->thread == thread) return entry;
  }
  return NULL;
}

nf_thread_entry *nf_thread_table_add(nf_thread_table *table, VALUE thread) {
  if (table->count == table->capacity) {
    size_t capacity = table->capacity ? table->capacity * 2 : SMALLEST_INDEX / 2;
    nf_thread_entry **entries = realloc(table->entries, capacity * sizeof(*entries));
    if (entries == NULL) return NULL;
    table->entries = entries;
    table->capacity = capacity;
  }
  if ((table->count + 1) * 2 > table->index_size &&
      !rebuild_index(table, table->index_size ? table->index_size * 2 : SMALLEST_INDEX)) {
    return NULL;
  }
  nf_thread_entry *entry = calloc(1, sizeof(*entry));
  if (entry == NULL) return NULL;
  entry->thread = thread;
  entry->cpu_time_at_previous_sample_ns = entry->wall_time_at_previous_sample_ns = NF_NOT_KNOWN;
  entry->gc_cpu_start_ns = entry->gc_wall_start_ns = NF_NOT_KNOWN;
  table->entries[table->count] = entry;
  put(table, table->count++);
  table->created++;
  return entry;
}

void nf_thread_table_drop_unseen(nf_thread_table *table, uint64_t pass) {
  size_t kept = 0;
  for (size_t i = 0; i < table->count; i++) {
    if (table->entries[i]->seen_in_pass == pass) {
      table->entries[kept++] = table->entries[i];
    } else {
      drop(table->entries[i]);
    }
  }
  if (kept == table->count) return;
  table->count = kept;

  // A burst of threads must not leave a big table behind.
  size_t index_size = table->index_size, capacity = table->capacity;
  while (index_size > SMALLEST_INDEX && kept * 8 < index_size) index_size /= 2;
  while (capacity > SMALLEST_INDEX / 2 && kept * 4 < capacity) capacity /= 2;
  if (capacity != table->capacity) {
    nf_thread_entry **entries = realloc(table->entries, capacity * sizeof(*entries));
    if (entries != NULL) {
      table->entries = entries;
      table->capacity = capacity;
    }
  }
  if (!rebuild_index(table, index_size)) rebuild_index(table, table->index_size); // in place, cannot fail
}

void nf_thread_table_mark(const nf_thread_table *table) {
  for (size_t i = 0; i < table->count; i++) rb_gc_mark(table->entries[i]->thread); // keys must not move
}

size_t nf_thread_table_size(const nf_thread_table *table) {
  size_t size = table->capacity * sizeof(*table->entries) + table->index_size * sizeof(*table->index);
  for (size_t i = 0; i < table->count; i++)
    size += sizeof(nf_thread_entry) + table->entries[i]->birthplace_length;
  return size;
}
