#include "heap_recorder.h"

#include "heap_hook.h"
#include "heap_sizes.h"
#include "random.h"
#include "time_helpers.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST_INDEX 256

typedef struct nf_heap_snapshot {
  size_t count, most_frames;
  ddog_prof_Location *locations; // room for one stack
  struct entry {
    nf_heap_stack *stack;
    nf_heap_text *klass;
    int64_t count, size, age;
  } entries[];
} nf_heap_snapshot;

void nf_heap_recorder_init(nf_heap_recorder *recorder, bool sizes, uint32_t sample_every) {
  *recorder = (nf_heap_recorder){.sizes = sizes,
                                 .sample_every = sample_every,
                                 .random = (uint32_t)nf_time_monotonic_ns() | 1,
                                 .budget = NF_HEAP_BUDGET_BYTES};
}

// --- the index ---

static size_t home(const nf_heap_recorder *recorder, VALUE object) {
  return (size_t)(((uint64_t)object >> 3) * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (recorder->index_size - 1);
}

static size_t next(const nf_heap_recorder *recorder, size_t place) {
  return (place + 1) & (recorder->index_size - 1);
}

static void put(nf_heap_recorder *recorder, size_t position) {
  size_t place = home(recorder, recorder->objects[position].object);
  while (recorder->index[place] != 0) place = next(recorder, place);
  recorder->index[place] = (uint32_t)position + 1;
  recorder->objects[position].place = (uint32_t)place;
}

static void rebuild_index(nf_heap_recorder *recorder) {
  memset(recorder->index, 0, recorder->index_size * sizeof(*recorder->index));
  for (size_t i = 0; i < recorder->count; i++) put(recorder, i);
}

static nf_heap_object *find(const nf_heap_recorder *recorder, VALUE object) {
  if (recorder->count == 0) return NULL;
  for (size_t place = home(recorder, object); recorder->index[place] != 0; place = next(recorder, place)) {
    nf_heap_object *found = &recorder->objects[recorder->index[place] - 1];
    if (found->object == object && !found->gone) return found;
  }
  return NULL;
}

static size_t table_bytes(size_t capacity, size_t index_size) {
  return capacity * sizeof(nf_heap_object) + index_size * sizeof(uint32_t);
}

// Room for so many objects; the index is kept less than half full.
static bool resize(nf_heap_recorder *recorder, size_t capacity) {
  size_t index_size = SMALLEST_INDEX;
  while (index_size < capacity * 2) index_size *= 2;
  uint32_t *index = malloc(index_size * sizeof(*index));
  if (index == NULL) return false;
  nf_heap_object *objects = realloc(recorder->objects, capacity * sizeof(*objects));
  if (objects == NULL) {
    free(index);
    return false;
  }
  free(recorder->index);
  recorder->objects = objects;
  recorder->capacity = capacity;
  recorder->index = index;
  recorder->index_size = index_size;
  rebuild_index(recorder);
  return true;
}

static size_t bytes_used(const nf_heap_recorder *recorder) {
  return recorder->stacks.bytes + table_bytes(recorder->capacity, recorder->index_size);
}

static bool make_room(nf_heap_recorder *recorder) {
  if (recorder->count < recorder->capacity) return true;
  size_t capacity = recorder->capacity ? recorder->capacity * 2 : SMALLEST_INDEX / 2;
  if (recorder->stacks.bytes + table_bytes(capacity, capacity * 2) > recorder->budget) return false;
  return resize(recorder, capacity);
}

// A burst of objects must not leave a big table behind.
static void give_room_back(nf_heap_recorder *recorder) {
  size_t capacity = recorder->capacity;
  while (capacity > SMALLEST_INDEX / 2 && recorder->count * 4 < capacity) capacity /= 2;
  if (capacity != recorder->capacity) resize(recorder, capacity); // else it stays as it is
}

static void release(nf_heap_recorder *recorder, nf_heap_stack *stack, nf_heap_text *klass) {
  nf_heap_stacks_release(&recorder->stacks, stack);
  if (klass != NULL) nf_heap_stacks_release_text(&recorder->stacks, klass);
}

// The last object takes its position.
static void drop(nf_heap_recorder *recorder, nf_heap_object *object) {
  release(recorder, object->stack, object->klass);
  // What stands behind it in the index and is not at home moves up, so that no search ends too early.
  size_t hole = object->place;
  for (size_t place = next(recorder, hole); recorder->index[place] != 0; place = next(recorder, place)) {
    nf_heap_object *other = &recorder->objects[recorder->index[place] - 1];
    size_t mask = recorder->index_size - 1;
    if (((place - home(recorder, other->object)) & mask) < ((place - hole) & mask)) continue;
    recorder->index[hole] = recorder->index[place];
    other->place = (uint32_t)hole;
    hole = place;
  }
  recorder->index[hole] = 0;
  nf_heap_object *last = &recorder->objects[--recorder->count];
  if (last == object) return;
  *object = *last;
  recorder->index[object->place] = (uint32_t)(object - recorder->objects) + 1;
}

void nf_heap_recorder_clear(nf_heap_recorder *recorder) {
  for (size_t i = 0; i < recorder->count; i++) {
    release(recorder, recorder->objects[i].stack, recorder->objects[i].klass);
  }
  recorder->count = 0;
  if (recorder->index != NULL) rebuild_index(recorder);
  give_room_back(recorder);
}

void nf_heap_recorder_deinit(nf_heap_recorder *recorder) {
  nf_heap_hook_forget(recorder);
  nf_heap_recorder_finish(recorder, false);
  nf_heap_recorder_clear(recorder);
  nf_heap_stacks_deinit(&recorder->stacks);
  free(recorder->objects);
  free(recorder->index);
  memset(recorder, 0, sizeof(*recorder));
}

// --- tracking ---

void nf_heap_recorder_start(nf_heap_recorder *recorder) {
  nf_heap_hook_add(recorder);
  recorder->collecting = true;
}

static void end_watching_if_idle(nf_heap_recorder *recorder) {
  if (!recorder->collecting && recorder->count == 0) nf_heap_hook_remove(recorder);
}

void nf_heap_recorder_stop(nf_heap_recorder *recorder) {
  recorder->collecting = false;
  end_watching_if_idle(recorder);
}

void nf_heap_recorder_end(nf_heap_recorder *recorder) {
  recorder->stats.lost += recorder->count;
  nf_heap_recorder_clear(recorder);
  nf_heap_recorder_stop(recorder);
}

static bool chosen(nf_heap_recorder *recorder) {
  if (recorder->block_left == 0) {
    recorder->block_left = recorder->sample_every;
    recorder->choice = nf_random_next(&recorder->random) % recorder->sample_every;
  }
  return --recorder->block_left == recorder->choice;
}

void nf_heap_recorder_track(nf_heap_recorder *recorder, VALUE object, uint64_t weight, ddog_CharSlice klass,
                            ddog_prof_Slice_Location locations) {
  if (!recorder->collecting || recorder->walking) return;
  if (!chosen(recorder)) return;
  nf_heap_recorder_forget(recorder, object);
  if (!make_room(recorder)) {
    recorder->stats.over_budget++;
    return;
  }
  size_t budget = recorder->budget - table_bytes(recorder->capacity, recorder->index_size);
  nf_heap_object made = {.object = object,
                         .weight = weight * recorder->sample_every,
                         .type = (uint32_t)RB_BUILTIN_TYPE(object),
                         .born = rb_gc_count()};
  made.stack = nf_heap_stacks_take(&recorder->stacks, locations, budget);
  if (made.stack != NULL && klass.len > 0) {
    made.klass = nf_heap_stacks_take_text(&recorder->stacks, klass, budget);
  }
  if (made.stack == NULL || (klass.len > 0 && made.klass == NULL)) {
    if (made.stack != NULL) nf_heap_stacks_release(&recorder->stacks, made.stack);
    recorder->stats.over_budget++;
    return;
  }
  recorder->objects[recorder->count] = made;
  put(recorder, recorder->count++);
  recorder->stats.tracked++;
}

void nf_heap_recorder_forget(nf_heap_recorder *recorder, VALUE object) {
  nf_heap_object *found = find(recorder, object);
  if (found == NULL) return;
  recorder->stats.freed++;
  if (recorder->walking) {
    found->gone = true;
  } else {
    drop(recorder, found);
  }
}

static void lose_all(nf_heap_recorder *recorder) {
  recorder->stats.lost += recorder->count;
  nf_heap_recorder_clear(recorder);
}

void nf_heap_recorder_compact(nf_heap_recorder *recorder) {
  if (!recorder->watching) return;
  nf_heap_hook_compacted();
  // An address that may not be one any more must not be looked at, and here is no time to find out.
  uint64_t missed = nf_heap_hook_missed();
  if (missed != recorder->missed) {
    recorder->missed = missed;
    if (recorder->walking) {
      for (size_t i = 0; i < recorder->count; i++) recorder->objects[i].gone = true;
    } else {
      lose_all(recorder);
    }
    return;
  }
  for (size_t i = 0; i < recorder->count; i++) {
    nf_heap_object *object = &recorder->objects[i];
    if (!object->gone) object->object = rb_gc_location(object->object);
  }
  if (recorder->index != NULL) rebuild_index(recorder);
}

// --- what lives ---

// Part of the heap: those of our objects that are in it are there indeed.
static int see_page(void *start, void *end, size_t stride, void *data) {
  nf_heap_recorder *recorder = data;
  for (char *at = start; at < (char *)end; at += stride) {
    nf_heap_object *object = find(recorder, (VALUE)at);
    if (object != NULL && nf_heap_object_is(object->object, object->type)) object->seen = true;
  }
  return 0;
}

static VALUE see_heap(VALUE data) {
  nf_heap_each_page(see_page, (nf_heap_recorder *)data);
  return Qnil;
}

// Looks through the whole heap of the VM, which takes long but happens hardly ever.
static void find_the_missed(nf_heap_recorder *recorder) {
  for (size_t i = 0; i < recorder->count; i++) recorder->objects[i].seen = false;
  int raised = 0;
  VALUE error = rb_errinfo();
  rb_protect(see_heap, (VALUE)recorder, &raised);
  if (raised) rb_set_errinfo(error);
  for (size_t i = 0; i < recorder->count; i++) {
    if (recorder->objects[i].seen || recorder->objects[i].gone) continue;
    recorder->objects[i].gone = true;
    recorder->stats.lost++;
  }
}

static void remove_gone(nf_heap_recorder *recorder) {
  for (size_t i = recorder->count; i > 0; i--) {
    if (recorder->objects[i - 1].gone) drop(recorder, &recorder->objects[i - 1]);
  }
}

static int64_t product(uint64_t a, uint64_t b) {
  return b > 0 && a > (uint64_t)INT64_MAX / b ? INT64_MAX : (int64_t)(a * b);
}

static void add_to_snapshot(nf_heap_recorder *recorder, nf_heap_snapshot *snapshot, size_t position,
                            size_t collections) {
  nf_heap_object *object = &recorder->objects[position];
  size_t size = recorder->sizes ? nf_heap_object_size(object->object) : 0;
  object = &recorder->objects[position];
  if (object->gone) return; // asking for sizes may start a GC
  nf_heap_stack_retain(object->stack);
  if (object->klass != NULL) nf_heap_text_retain(object->klass);
  snapshot->entries[snapshot->count++] = (struct entry){.stack = object->stack,
                                                        .klass = object->klass,
                                                        .count = product(object->weight, 1),
                                                        .size = product(size, object->weight),
                                                        .age = (int64_t)(collections - object->born)};
  if (object->stack->count > snapshot->most_frames) snapshot->most_frames = object->stack->count;
}

bool nf_heap_recorder_prepare(nf_heap_recorder *recorder, nf_failure *failure) {
  if (recorder->snapshot != NULL) return nf_failure_set(failure, "the live objects are being read already");
  if (recorder->count == 0) {
    give_room_back(recorder);
    return true;
  }
  nf_heap_snapshot *snapshot = malloc(sizeof(*snapshot) + recorder->count * sizeof(*snapshot->entries));
  if (snapshot == NULL) return nf_failure_set(failure, "no memory for the live objects");
  snapshot->count = snapshot->most_frames = 0;

  recorder->walking = true;
  uint64_t missed = nf_heap_hook_missed();
  if (missed != recorder->missed) find_the_missed(recorder);
  recorder->missed = missed;
  // Only what a whole GC has left alive since it was born is known to live; of what is younger, and in the
  // middle of a GC, the VM does not know itself.
  size_t collections = rb_gc_count(), finished = collections - (nf_heap_collecting() ? 1 : 0);
  for (size_t i = 0; i < recorder->count; i++) {
    nf_heap_object *object = &recorder->objects[i];
    if (object->gone || object->born >= finished) continue;
    if (!nf_heap_object_is(object->object, object->type)) {
      object->gone = true;
      recorder->stats.lost++;
      continue;
    }
    add_to_snapshot(recorder, snapshot, i, collections);
  }
  recorder->walking = false;
  remove_gone(recorder);
  give_room_back(recorder);

  recorder->snapshot = snapshot;
  snapshot->locations = calloc(snapshot->most_frames + 1, sizeof(*snapshot->locations));
  if (snapshot->locations != NULL) return true;
  nf_heap_recorder_finish(recorder, false);
  return nf_failure_set(failure, "no memory for the live objects");
}

void nf_heap_recorder_each(const nf_heap_recorder *recorder,
                           bool (*visit)(const nf_heap_sample *sample, ddog_prof_Slice_Location locations,
                                         void *data),
                           void *data) {
  const nf_heap_snapshot *snapshot = recorder->snapshot;
  if (snapshot == NULL) return;
  const nf_heap_stack *previous = NULL;
  for (size_t i = 0; i < snapshot->count; i++) {
    const struct entry *entry = &snapshot->entries[i];
    if (entry->stack != previous) nf_heap_stack_locations(entry->stack, snapshot->locations);
    previous = entry->stack;
    nf_heap_sample sample = {.count = entry->count, .size = entry->size, .age = entry->age};
    sample.klass = entry->klass ? nf_slice_of_text(entry->klass->bytes, entry->klass->length) : NF_SLICE("");
    ddog_prof_Slice_Location locations = {.ptr = snapshot->locations, .len = entry->stack->count};
    if (!visit(&sample, locations, data)) return;
  }
}

void nf_heap_recorder_finish(nf_heap_recorder *recorder, bool reported) {
  nf_heap_snapshot *snapshot = recorder->snapshot;
  recorder->snapshot = NULL;
  if (snapshot != NULL) {
    for (size_t i = 0; i < snapshot->count; i++) {
      release(recorder, snapshot->entries[i].stack, snapshot->entries[i].klass);
    }
    free(snapshot->locations);
    free(snapshot);
  }
  if (reported && !recorder->collecting && recorder->watching) {
    nf_heap_recorder_clear(recorder);
    end_watching_if_idle(recorder);
  }
}

bool nf_heap_recorder_consistent(const nf_heap_recorder *recorder) {
  size_t taken = 0;
  for (size_t i = 0; i < recorder->index_size; i++) taken += recorder->index[i] != 0;
  bool ok = taken == recorder->count;
  for (size_t i = 0; i < recorder->count; i++) {
    const nf_heap_object *object = &recorder->objects[i];
    ok = ok && find(recorder, object->object) == object && recorder->index[object->place] == i + 1;
  }
  return ok && nf_heap_stacks_consistent(&recorder->stacks);
}

size_t nf_heap_recorder_size(const nf_heap_recorder *recorder) { return bytes_used(recorder); }

void nf_heap_recorder_stats(const nf_heap_recorder *recorder, VALUE hash) {
  rb_hash_aset(hash, ID2SYM(rb_intern("heap_objects")), SIZET2NUM(recorder->count));
  rb_hash_aset(hash, ID2SYM(rb_intern("heap_stacks")), SIZET2NUM(recorder->stacks.stacks.count));
  rb_hash_aset(hash, ID2SYM(rb_intern("heap_bytes")), SIZET2NUM(bytes_used(recorder)));
  rb_hash_aset(hash, ID2SYM(rb_intern("heap_objects_tracked")), ULL2NUM(recorder->stats.tracked));
  rb_hash_aset(hash, ID2SYM(rb_intern("heap_objects_freed")), ULL2NUM(recorder->stats.freed));
  rb_hash_aset(hash, ID2SYM(rb_intern("heap_objects_over_budget")), ULL2NUM(recorder->stats.over_budget));
  rb_hash_aset(hash, ID2SYM(rb_intern("heap_objects_lost")), ULL2NUM(recorder->stats.lost));
}
