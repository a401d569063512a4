#ifndef NF_HEAP_RECORDER_H
#define NF_HEAP_RECORDER_H

// Knows which of the sampled objects are still alive, where they were allocated, and how big they are.
//
// An object is known by its address. The VM tells of each object that it frees (heap_hook.h), and where
// compaction has moved the others. Other ways to ask for life have each their fault: ids can name another
// object, WeakMap allocates and loses keys to compaction in some Rubies, and both run code of the VM that may
// raise while the table is walked. This costs one look into a small table for each freed object.
//
// While nobody collects, no object is added; the known ones stay known until the next profile has them.
// All functions need the GVL, but for `each`. None raises, unless it says so.

#include "heap_stacks.h"
#include "ruby_helpers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What one recorder may use. Objects above that are not tracked (and counted).
#define NF_HEAP_BUDGET_BYTES ((size_t)64 << 20)

typedef struct nf_heap_object {
  VALUE object; // not marked
  nf_heap_stack *stack;
  nf_heap_text *klass; // NULL: not known
  uint64_t weight;
  uint32_t place; // in the index
  uint32_t type;  // of the VM
  size_t born;    // how many GCs there had been
  bool gone;      // found dead in a walk: removed at its end
  bool seen;
} nf_heap_object;

// Of one live object, for the profile.
typedef struct nf_heap_sample {
  ddog_CharSlice klass; // may be empty
  int64_t count, size, age;
} nf_heap_sample;

typedef struct nf_heap_recorder {
  bool sizes;
  uint32_t sample_every;
  uint32_t block_left; // samples in the current block of `sample_every`
  uint32_t choice;     // which of them is tracked: when so many are left
  uint32_t random;
  size_t budget;
  nf_heap_stacks stacks;
  nf_heap_object *objects;
  size_t count, capacity;
  uint32_t *index; // open addressing; position in `objects` + 1, 0 = free
  size_t index_size;
  bool collecting, walking;
  // What `each` gives: belongs to whoever serializes, until `finish`.
  struct nf_heap_snapshot *snapshot;
  // Of the hook.
  struct nf_heap_recorder *next;
  bool watching;
  uint64_t missed;
  struct {
    uint64_t tracked, over_budget, freed, lost;
  } stats;
} nf_heap_recorder;

// `sample_every`: one allocation sample of n in a row is tracked, for n. Which one is left to chance, so that
// each has the same.
void nf_heap_recorder_init(nf_heap_recorder *recorder, bool sizes, uint32_t sample_every);
void nf_heap_recorder_deinit(nf_heap_recorder *recorder); // in a GC too

// From now on (not any more) objects are tracked. Starting may raise.
void nf_heap_recorder_start(nf_heap_recorder *recorder);
void nf_heap_recorder_stop(nf_heap_recorder *recorder);
// As `stop`, and the objects of before are forgotten.
void nf_heap_recorder_end(nf_heap_recorder *recorder);

// An object was allocated just now, whose sample stands for `weight` of them. For use in the middle of its
// allocation. Objects that Ruby code never gets to see are not for here.
void nf_heap_recorder_track(nf_heap_recorder *recorder, VALUE object, uint64_t weight, ddog_CharSlice klass,
                            ddog_prof_Slice_Location locations);

// Nothing of ours is at this address any more. In a GC.
void nf_heap_recorder_forget(nf_heap_recorder *recorder, VALUE object);
// Compaction has moved objects.
void nf_heap_recorder_compact(nf_heap_recorder *recorder);

// Finds all that live, with their sizes, for `each`. False: there is no memory for it. After it, `finish`.
bool nf_heap_recorder_prepare(nf_heap_recorder *recorder, nf_failure *failure);
// Without the GVL. Allocates nothing. Ends when the visitor returns false.
void nf_heap_recorder_each(const nf_heap_recorder *recorder,
                           bool (*visit)(const nf_heap_sample *sample, ddog_prof_Slice_Location locations,
                                         void *data),
                           void *data);
// `reported`: the profile has them. When nobody collects any more, that was the last.
void nf_heap_recorder_finish(nf_heap_recorder *recorder, bool reported);

void nf_heap_recorder_clear(nf_heap_recorder *recorder);
// For tests: is each object, and each stack, found where it is looked for, and nothing else?
bool nf_heap_recorder_consistent(const nf_heap_recorder *recorder);
size_t nf_heap_recorder_size(const nf_heap_recorder *recorder);
void nf_heap_recorder_stats(const nf_heap_recorder *recorder, VALUE hash);

#endif
