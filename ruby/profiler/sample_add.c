#include "sample_add.h"

#include "text_repair.h"

#include <stdlib.h>
#include <string.h>

// Calls `visit` for every text of a sample.
static void each_text(ddog_prof_Location *locations, size_t location_count, ddog_prof_Label *labels,
                      size_t label_count, void (*visit)(ddog_CharSlice *text, void *data), void *data) {
  for (size_t i = 0; i < location_count; i++) {
    visit(&locations[i].function.name, data);
    visit(&locations[i].function.filename, data);
  }
  for (size_t i = 0; i < label_count; i++) visit(&labels[i].str, data);
}

static void add_repaired_size(ddog_CharSlice *text, void *data) {
  if (!nf_text_valid(text->ptr, text->len)) *(size_t *)data += NF_TEXT_REPAIRED_MAX(text->len);
}

static void repair(ddog_CharSlice *text, void *data) {
  char **room = data;
  if (nf_text_valid(text->ptr, text->len)) return;
  size_t length = nf_text_repair(text->ptr, text->len, *room);
  *text = nf_slice_of_text(*room, length);
  *room += length;
}

// The sample was refused: if that was for its text, adds a repaired copy.
static bool add_repaired(ddog_prof_Profile *profile, ddog_prof_Sample sample, int64_t timestamp) {
  ddog_prof_Location *locations = (ddog_prof_Location *)sample.locations.ptr;
  ddog_prof_Label *labels = (ddog_prof_Label *)sample.labels.ptr;
  size_t size = 0;
  each_text(locations, sample.locations.len, labels, sample.labels.len, add_repaired_size, &size);
  if (size == 0) return false;

  size_t locations_size = sample.locations.len * sizeof(*locations),
         labels_size = sample.labels.len * sizeof(*labels);
  char *copy = malloc(locations_size + labels_size + size);
  if (copy == NULL) return false;
  if (locations_size > 0) memcpy(copy, locations, locations_size);
  if (labels_size > 0) memcpy(copy + locations_size, labels, labels_size);
  locations = (ddog_prof_Location *)(void *)copy;
  labels = (ddog_prof_Label *)(void *)(copy + locations_size);
  char *room = copy + locations_size + labels_size;
  each_text(locations, sample.locations.len, labels, sample.labels.len, repair, &room);

  sample.locations.ptr = locations;
  sample.labels.ptr = labels;
  ddog_prof_Profile_Result result = ddog_prof_Profile_add(profile, sample, timestamp);
  bool added = result.tag == DDOG_PROF_PROFILE_RESULT_OK;
  if (!added) ddog_Error_drop(&result.err);
  free(copy);
  return added;
}

nf_sample_add_result nf_sample_add(ddog_prof_Profile *profile, ddog_prof_Sample sample, int64_t timestamp,
                                   nf_failure *failure) {
  ddog_prof_Profile_Result result = ddog_prof_Profile_add(profile, sample, timestamp);
  if (result.tag == DDOG_PROF_PROFILE_RESULT_OK) return NF_SAMPLE_ADDED;
  if (add_repaired(profile, sample, timestamp)) {
    ddog_Error_drop(&result.err);
    return NF_SAMPLE_ADDED_REPAIRED;
  }
  nf_failure_take(failure, "a sample cannot be recorded", &result.err);
  return NF_SAMPLE_REFUSED;
}
