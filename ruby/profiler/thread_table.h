#ifndef NF_THREAD_TABLE_H
#define NF_THREAD_TABLE_H

// What is remembered of each living thread between samples. Uses the plain heap only, so that nothing in here
// can start a GC. Holds as many entries as there were threads at the last pass: each pass ends by dropping
// those it did not see.

#include "clock_id.h"
#include "gvl_watch.h"
#include "private_vm_access.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NF_NOT_KNOWN INT64_C(-1)

typedef struct nf_thread_entry {
  VALUE thread; // marked, so neither it nor its native state can be replaced by another one unseen
  nf_vm_thread *vm_thread;
  uint64_t seen_in_pass;
  nf_cpu_clock cpu_clock;
  int64_t cpu_time_at_previous_sample_ns;  // or NF_NOT_KNOWN
  int64_t wall_time_at_previous_sample_ns; // or NF_NOT_KNOWN
  // When the collector began that now runs on this thread; NF_NOT_KNOWN: it does not.
  int64_t gc_cpu_start_ns, gc_wall_start_ns;
  nf_gvl_state gvl; // at the previous sample
  bool gvl_is_known;
  char id[64];
  size_t id_length;
  char *birthplace; // shown when the thread has no name; NULL: none
  size_t birthplace_length;
} nf_thread_entry;

typedef struct nf_thread_table {
  nf_thread_entry **entries;
  size_t count, capacity;
  size_t *index; // open addressing; position in `entries` + 1, 0 = free
  size_t index_size;
  uint64_t created; // ever
} nf_thread_table;

void nf_thread_table_deinit(nf_thread_table *table);
void nf_thread_table_clear(nf_thread_table *table);

nf_thread_entry *nf_thread_table_find(const nf_thread_table *table, VALUE thread);
// A new, zeroed entry, or NULL without memory. There is none for this thread yet.
nf_thread_entry *nf_thread_table_add(nf_thread_table *table, VALUE thread);
void nf_thread_table_drop_unseen(nf_thread_table *table, uint64_t pass);
void nf_thread_table_mark(const nf_thread_table *table);
size_t nf_thread_table_size(const nf_thread_table *table);

#endif
