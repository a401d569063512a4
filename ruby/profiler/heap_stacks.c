#include "heap_stacks.h"

#include "ruby_helpers.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST_SET 64
#define MULTIPLIER UINT64_C(0x9E3779B97F4A7C15)

// --- sets ---

static uint64_t hash_of(const void *thing) { return *(const uint64_t *)thing; }

static size_t home(const nf_heap_set *set, uint64_t hash) { return (size_t)(hash >> 20) & (set->size - 1); }

static size_t next(const nf_heap_set *set, size_t place) { return (place + 1) & (set->size - 1); }

static void put(nf_heap_set *set, void *thing) {
  size_t place = home(set, hash_of(thing));
  while (set->places[place] != NULL) place = next(set, place);
  set->places[place] = thing;
}

// Of the set's own memory, in bytes.
static size_t set_bytes(const nf_heap_set *set) { return set->size * sizeof(*set->places); }

static bool resize(nf_heap_set *set, size_t size) {
  nf_heap_set bigger = {.places = calloc(size, sizeof(*bigger.places)), .size = size, .count = set->count};
  if (bigger.places == NULL) return false;
  for (size_t i = 0; i < set->size; i++) {
    if (set->places[i] != NULL) put(&bigger, set->places[i]);
  }
  free(set->places);
  *set = bigger;
  return true;
}

static bool add(nf_heap_stacks *stacks, nf_heap_set *set, void *thing, size_t budget) {
  if ((set->count + 1) * 2 > set->size) {
    size_t size = set->size ? set->size * 2 : SMALLEST_SET;
    size_t more = (size - set->size) * sizeof(*set->places);
    if (stacks->bytes + more > budget || !resize(set, size)) return false;
    stacks->bytes += more;
  }
  put(set, thing);
  set->count++;
  return true;
}

// The things behind it that are not at home move up, so that no search ends too early.
static void take_out(nf_heap_stacks *stacks, nf_heap_set *set, const void *thing) {
  size_t hole = home(set, hash_of(thing));
  while (set->places[hole] != thing) hole = next(set, hole);
  for (size_t place = next(set, hole); set->places[place] != NULL; place = next(set, place)) {
    size_t at_home = home(set, hash_of(set->places[place]));
    size_t distance_to_home = (place - at_home) & (set->size - 1);
    size_t distance_to_hole = (place - hole) & (set->size - 1);
    if (distance_to_home < distance_to_hole) continue;
    set->places[hole] = set->places[place];
    hole = place;
  }
  set->places[hole] = NULL;
  set->count--;
  if (set->size > SMALLEST_SET && set->count * 16 < set->size) { // a burst must not leave a big set behind
    size_t before = set_bytes(set);
    if (resize(set, set->size / 4)) stacks->bytes -= before - set_bytes(set);
  }
}

// --- texts ---

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * MULTIPLIER;
  return hash ^ (hash >> 29);
}

static uint64_t text_hash(ddog_CharSlice text) {
  uint64_t hash = mix(text.len, 0);
  const char *bytes = text.ptr;
  size_t left = text.len;
  for (; left >= 8; left -= 8, bytes += 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    hash = mix(hash, word);
  }
  uint64_t rest = 0;
  if (left > 0) memcpy(&rest, bytes, left);
  return mix(hash, rest);
}

static bool same_text(const nf_heap_text *text, ddog_CharSlice other) {
  return text->length == other.len && (other.len == 0 || memcmp(text->bytes, other.ptr, other.len) == 0);
}

static size_t text_size(size_t length) { return sizeof(nf_heap_text) + length; }

static nf_heap_text *take_text(nf_heap_stacks *stacks, ddog_CharSlice text, uint64_t hash, size_t budget) {
  nf_heap_set *set = &stacks->texts;
  if (set->size > 0) {
    for (size_t place = home(set, hash); set->places[place] != NULL; place = next(set, place)) {
      nf_heap_text *found = set->places[place];
      if (found->hash != hash || !same_text(found, text)) continue;
      found->references++;
      return found;
    }
  }
  size_t size = text_size(text.len);
  if (text.len > UINT32_MAX || stacks->bytes + size > budget) return NULL;
  nf_heap_text *made = malloc(size);
  if (made == NULL) return NULL;
  made->hash = hash;
  made->references = 1;
  made->length = (uint32_t)text.len;
  if (text.len > 0) memcpy(made->bytes, text.ptr, text.len);
  stacks->bytes += size;
  if (!add(stacks, set, made, budget)) {
    stacks->bytes -= size;
    free(made);
    return NULL;
  }
  return made;
}

nf_heap_text *nf_heap_stacks_take_text(nf_heap_stacks *stacks, ddog_CharSlice text, size_t budget) {
  return take_text(stacks, text, text_hash(text), budget);
}

void nf_heap_stacks_release_text(nf_heap_stacks *stacks, nf_heap_text *text) {
  if (--text->references > 0) return;
  take_out(stacks, &stacks->texts, text);
  stacks->bytes -= text_size(text->length);
  free(text);
}

// --- stacks ---

static uint64_t frame_hash(uint64_t hash, uint64_t name, uint64_t file, int64_t line) {
  return mix(mix(mix(hash, name), file), (uint64_t)line);
}

static uint64_t locations_hash(ddog_prof_Slice_Location locations) {
  uint64_t hash = mix(locations.len, 1);
  for (size_t i = 0; i < locations.len; i++) {
    const ddog_prof_Location *location = &locations.ptr[i];
    hash = frame_hash(hash, text_hash(location->function.name), text_hash(location->function.filename),
                      location->line);
  }
  return hash;
}

static bool same_stack(const nf_heap_stack *stack, ddog_prof_Slice_Location locations) {
  if (stack->count != locations.len) return false;
  for (size_t i = 0; i < locations.len; i++) {
    const nf_heap_frame *frame = &stack->frames[i];
    const ddog_prof_Location *location = &locations.ptr[i];
    if (frame->line != location->line || !same_text(frame->name, location->function.name) ||
        !same_text(frame->file, location->function.filename)) {
      return false;
    }
  }
  return true;
}

static nf_heap_stack *find(const nf_heap_stacks *stacks, ddog_prof_Slice_Location locations, uint64_t hash) {
  const nf_heap_set *set = &stacks->stacks;
  if (set->size == 0) return NULL;
  for (size_t place = home(set, hash); set->places[place] != NULL; place = next(set, place)) {
    nf_heap_stack *stack = set->places[place];
    if (stack->hash == hash && same_stack(stack, locations)) return stack;
  }
  return NULL;
}

static size_t stack_size(size_t count) { return sizeof(nf_heap_stack) + count * sizeof(nf_heap_frame); }

static void free_stack(nf_heap_stacks *stacks, nf_heap_stack *stack) {
  for (uint32_t i = 0; i < stack->count; i++) {
    nf_heap_stacks_release_text(stacks, stack->frames[i].name);
    nf_heap_stacks_release_text(stacks, stack->frames[i].file);
  }
  free(stack);
}

static bool fill(nf_heap_stacks *stacks, nf_heap_stack *stack, ddog_prof_Slice_Location locations,
                 size_t budget) {
  for (; stack->count < locations.len; stack->count++) {
    const ddog_prof_Location *location = &locations.ptr[stack->count];
    nf_heap_frame *frame = &stack->frames[stack->count];
    frame->line = location->line;
    frame->name = nf_heap_stacks_take_text(stacks, location->function.name, budget);
    if (frame->name == NULL) return false;
    frame->file = nf_heap_stacks_take_text(stacks, location->function.filename, budget);
    if (frame->file == NULL) {
      nf_heap_stacks_release_text(stacks, frame->name);
      return false;
    }
  }
  return true;
}

nf_heap_stack *nf_heap_stacks_take(nf_heap_stacks *stacks, ddog_prof_Slice_Location locations,
                                   size_t budget) {
  uint64_t hash = locations_hash(locations);
  nf_heap_stack *stack = find(stacks, locations, hash);
  if (stack != NULL) {
    stack->references++;
    return stack;
  }
  size_t size = stack_size(locations.len);
  if (stacks->bytes + size > budget) return NULL;
  stack = malloc(size);
  if (stack == NULL) return NULL;
  stack->hash = hash;
  stack->references = 1;
  stack->count = 0; // grows with the frames that are there
  stacks->bytes += size;
  if (!fill(stacks, stack, locations, budget) || !add(stacks, &stacks->stacks, stack, budget)) {
    stacks->bytes -= size;
    free_stack(stacks, stack);
    return NULL;
  }
  return stack;
}

void nf_heap_stacks_release(nf_heap_stacks *stacks, nf_heap_stack *stack) {
  if (--stack->references > 0) return;
  take_out(stacks, &stacks->stacks, stack);
  stacks->bytes -= stack_size(stack->count);
  free_stack(stacks, stack);
}

void nf_heap_stacks_deinit(nf_heap_stacks *stacks) {
  free(stacks->texts.places);
  free(stacks->stacks.places);
  memset(stacks, 0, sizeof(*stacks));
}

static ddog_CharSlice slice(const nf_heap_text *text) { return nf_slice_of_text(text->bytes, text->length); }

void nf_heap_stack_locations(const nf_heap_stack *stack, ddog_prof_Location *locations) {
  for (uint32_t i = 0; i < stack->count; i++) {
    ddog_prof_Location *location = &locations[i];
    memset(location, 0, sizeof(*location));
    location->mapping.filename = location->mapping.build_id = location->function.system_name = NF_SLICE("");
    location->function.name = slice(stack->frames[i].name);
    location->function.filename = slice(stack->frames[i].file);
    location->line = stack->frames[i].line;
  }
}

bool nf_heap_stacks_consistent(const nf_heap_stacks *stacks) {
  for (size_t i = 0; i < stacks->stacks.size; i++) {
    nf_heap_stack *stack = stacks->stacks.places[i];
    if (stack == NULL) continue;
    ddog_prof_Location *locations = calloc(stack->count + 1, sizeof(*locations));
    if (locations == NULL) return false;
    nf_heap_stack_locations(stack, locations);
    ddog_prof_Slice_Location all = {.ptr = locations, .len = stack->count};
    bool ok = locations_hash(all) == stack->hash && find(stacks, all, stack->hash) == stack;
    free(locations);
    if (!ok) return false;
  }
  return true;
}
