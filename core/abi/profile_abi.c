/* ddog_prof_Profile_*: checks handles, translates types and errors, and calls the engine. */
#include "core/abi/error_abi.h"
#include "core/alloc.h"
#include "core/limits.h"
#include "core/profile.h"

#include <datadog/profiling.h>
#include <stdio.h>
#include <time.h>

/* Arrays go to the engine as they are: its structs lie in memory as the public ones. */
#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #ours)
#define SAME_PLACE(ours, a, theirs, b) _Static_assert(offsetof(ours, a) == offsetof(theirs, b), #ours "." #a)
SAME_SIZE(nf_str, ddog_CharSlice);
SAME_PLACE(nf_str, ptr, ddog_CharSlice, ptr);
SAME_PLACE(nf_str, len, ddog_CharSlice, len);
SAME_SIZE(nf_value_type, ddog_prof_ValueType);
SAME_PLACE(nf_value_type, type, ddog_prof_ValueType, type_);
SAME_PLACE(nf_value_type, unit, ddog_prof_ValueType, unit);
SAME_SIZE(nf_mapping, ddog_prof_Mapping);
SAME_PLACE(nf_mapping, memory_start, ddog_prof_Mapping, memory_start);
SAME_PLACE(nf_mapping, memory_limit, ddog_prof_Mapping, memory_limit);
SAME_PLACE(nf_mapping, file_offset, ddog_prof_Mapping, file_offset);
SAME_PLACE(nf_mapping, filename, ddog_prof_Mapping, filename);
SAME_PLACE(nf_mapping, build_id, ddog_prof_Mapping, build_id);
SAME_SIZE(nf_function, ddog_prof_Function);
SAME_PLACE(nf_function, name, ddog_prof_Function, name);
SAME_PLACE(nf_function, system_name, ddog_prof_Function, system_name);
SAME_PLACE(nf_function, filename, ddog_prof_Function, filename);
SAME_PLACE(nf_function, start_line, ddog_prof_Function, start_line);
SAME_SIZE(nf_location, ddog_prof_Location);
SAME_PLACE(nf_location, mapping, ddog_prof_Location, mapping);
SAME_PLACE(nf_location, function, ddog_prof_Location, function);
SAME_PLACE(nf_location, address, ddog_prof_Location, address);
SAME_PLACE(nf_location, line, ddog_prof_Location, line);
SAME_SIZE(nf_label, ddog_prof_Label);
SAME_PLACE(nf_label, key, ddog_prof_Label, key);
SAME_PLACE(nf_label, str, ddog_prof_Label, str);
SAME_PLACE(nf_label, num, ddog_prof_Label, num);
SAME_PLACE(nf_label, num_unit, ddog_prof_Label, num_unit);
_Static_assert(sizeof(size_t) == sizeof(uintptr_t), "offsets are passed as they are");
_Static_assert((int)DDOG_PROF_CODEC_LZ4_FRAME == NF_CODEC_LZ4_FRAME &&
                   (int)DDOG_PROF_CODEC_GZIP == NF_CODEC_GZIP && (int)DDOG_PROF_CODEC_ZSTD == NF_CODEC_ZSTD &&
                   (int)DDOG_PROF_CODEC_NONE == NF_CODEC_NONE,
               "codecs are passed as they are");
_Static_assert(DDOG_PROF_MAX_SAMPLE_TYPES == NF_MAX_SAMPLE_TYPES &&
                   DDOG_PROF_MAX_FRAMES_PER_SAMPLE == NF_MAX_FRAMES_PER_SAMPLE &&
                   DDOG_PROF_MAX_LABELS_PER_SAMPLE == NF_MAX_LABELS_PER_SAMPLE &&
                   DDOG_PROF_MAX_STRING_BYTES == NF_MAX_STRING_BYTES &&
                   DDOG_PROF_DEFAULT_BUDGET_BYTES == NF_DEFAULT_BUDGET,
               "the public header states the limits");

/* ---- translation ---- */

static nf_str str(ddog_CharSlice slice) { return (nf_str){slice.ptr, slice.len}; }

static nf_moment now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (nf_moment){t.tv_sec, (uint32_t)t.tv_nsec};
}

static nf_moment moment(const ddog_Timespec *time) {
  if (!time) return now();
  uint32_t carry = time->nanoseconds / 1000000000u;
  if (time->seconds > INT64_MAX - (int64_t)carry) return (nf_moment){INT64_MAX, 999999999};
  return (nf_moment){time->seconds + carry, time->nanoseconds % 1000000000u};
}

static ddog_Timespec timespec(nf_moment moment) {
  return (ddog_Timespec){moment.seconds, moment.nanoseconds};
}

static ddog_prof_Profile_Result ok(void) {
  return (ddog_prof_Profile_Result){.tag = DDOG_PROF_PROFILE_RESULT_OK, .ok = true};
}

static ddog_prof_Profile_Result err(nf_error *error) {
  return (ddog_prof_Profile_Result){.tag = DDOG_PROF_PROFILE_RESULT_ERR, .err = nf_abi_take_error(error)};
}

static ddog_prof_Profile_Result result(bool success, nf_error *error) { return success ? ok() : err(error); }

/* Puts "<function> failed: " before the text of an error. */
static void prefix(nf_error *error, const char *function) {
  if (!error->text) return;
  size_t head = strlen(function) + sizeof " failed: " - 1;
  char *text = nf_alloc(head + error->len + 1);
  if (text) {
    snprintf(text, head + 1, "%s failed: ", function);
    memcpy(text + head, error->text, error->len);
    nf_error_set_text(error, text, head + error->len);
    nf_free(text);
  } else
    nf_error_set_no_memory(error);
}

/* The engine's profile behind a handle, or NULL and why not. */
static nf_profile *open_handle(const ddog_prof_Profile *profile, const char *function, nf_error *error) {
  if (!profile)
    nf_error_set(error, "%s failed: profile pointer was null", function);
  else if (!profile->inner)
    nf_error_set(error, "%s failed: profile's inner pointer was null (indicates use-after-free)", function);
  else
    return (nf_profile *)(void *)profile->inner;
  return NULL;
}

/* ---- life ---- */

struct ddog_prof_Profile_NewResult ddog_prof_Profile_new(struct ddog_prof_Slice_ValueType sample_types,
                                                         const struct ddog_prof_Period *period,
                                                         const struct ddog_Timespec *start_time) {
  nf_error error = {0};
  nf_profile *made =
      nf_profile_new((const nf_value_type *)sample_types.ptr, sample_types.ptr ? sample_types.len : 0,
                     period ? (const nf_value_type *)&period->type_ : NULL, period ? period->value : 0,
                     moment(start_time), &error);
  if (!made)
    return (ddog_prof_Profile_NewResult){.tag = DDOG_PROF_PROFILE_NEW_RESULT_ERR,
                                         .err = nf_abi_take_error(&error)};
  return (ddog_prof_Profile_NewResult){.tag = DDOG_PROF_PROFILE_NEW_RESULT_OK,
                                       .ok = {(struct ddog_prof_Profile *)(void *)made}};
}

void ddog_prof_Profile_drop(struct ddog_prof_Profile *profile) {
  if (!profile) return;
  nf_profile_drop((nf_profile *)(void *)profile->inner);
  profile->inner = NULL;
}

struct ddog_prof_Profile_Result ddog_prof_Profile_reset(struct ddog_prof_Profile *profile,
                                                        const struct ddog_Timespec *start_time) {
  nf_error error = {0};
  nf_profile *p = open_handle(profile, "ddog_prof_Profile_reset", &error);
  return result(p && nf_profile_reset(p, moment(start_time), &error), &error);
}

/* ---- adding ---- */

struct ddog_prof_Profile_Result ddog_prof_Profile_add(struct ddog_prof_Profile *profile,
                                                      struct ddog_prof_Sample sample, int64_t timestamp) {
  nf_error error = {0};
  nf_profile *p = open_handle(profile, "ddog_prof_Profile_add", &error);
  if (!p) return err(&error);
  nf_sample s = {.locations = (const nf_location *)sample.locations.ptr,
                 .n_locations = sample.locations.len,
                 .values = sample.values.ptr,
                 .n_values = sample.values.len,
                 .labels = (const nf_label *)sample.labels.ptr,
                 .n_labels = sample.labels.len,
                 .timestamp = timestamp};
  if (nf_profile_add(p, &s, &error)) return ok();
  prefix(&error, "ddog_prof_Profile_add");
  return err(&error);
}

struct ddog_prof_Profile_Result ddog_prof_Profile_set_endpoint(struct ddog_prof_Profile *profile,
                                                               uint64_t local_root_span_id,
                                                               ddog_CharSlice endpoint) {
  nf_error error = {0};
  nf_profile *p = open_handle(profile, "ddog_prof_Profile_set_endpoint", &error);
  if (!p) return err(&error);
  if (nf_profile_set_endpoint(p, local_root_span_id, str(endpoint), &error)) return ok();
  prefix(&error, "ddog_prof_Profile_set_endpoint");
  return err(&error);
}

struct ddog_prof_Profile_Result ddog_prof_Profile_add_endpoint_count(struct ddog_prof_Profile *profile,
                                                                     ddog_CharSlice endpoint, int64_t value) {
  nf_error error = {0};
  nf_profile *p = open_handle(profile, "ddog_prof_Profile_add_endpoint_count", &error);
  if (!p) return err(&error);
  if (nf_profile_add_endpoint_count(p, str(endpoint), value, &error)) return ok();
  prefix(&error, "ddog_prof_Profile_add_endpoint_count");
  return err(&error);
}

/* ---- upscaling: errors about the rule itself have no prefix ---- */

struct ddog_prof_Profile_Result ddog_prof_Profile_add_upscaling_rule_poisson(
    struct ddog_prof_Profile *profile, struct ddog_prof_Slice_Usize offset_values, ddog_CharSlice label_name,
    ddog_CharSlice label_value, uintptr_t sum_value_offset, uintptr_t count_value_offset,
    uint64_t sampling_distance) {
  nf_error error = {0};
  nf_profile *p = open_handle(profile, "ddog_prof_Profile_add_upscaling_rule_poisson", &error);
  return result(p && nf_profile_add_upscaling_poisson(
                         p, offset_values.ptr, offset_values.ptr ? offset_values.len : 0, str(label_name),
                         str(label_value), sum_value_offset, count_value_offset, sampling_distance, &error),
                &error);
}

struct ddog_prof_Profile_Result ddog_prof_Profile_add_upscaling_rule_proportional(
    struct ddog_prof_Profile *profile, struct ddog_prof_Slice_Usize offset_values, ddog_CharSlice label_name,
    ddog_CharSlice label_value, uint64_t total_sampled, uint64_t total_real) {
  nf_error error = {0};
  /* Version 6 names the other function here. */
  nf_profile *p = open_handle(profile, "ddog_prof_Profile_add_upscaling_rule_poisson", &error);
  return result(p && nf_profile_add_upscaling_proportional(
                         p, offset_values.ptr, offset_values.ptr ? offset_values.len : 0, str(label_name),
                         str(label_value), total_sampled, total_real, &error),
                &error);
}

/* ---- serializing ---- */

static ddog_prof_Profile_SerializeResult serialize(ddog_prof_Profile *profile, const ddog_Timespec *end_time,
                                                   const int64_t *duration_nanos,
                                                   const ddog_Timespec *start_time, nf_codec_kind codec,
                                                   const char *function) {
  nf_error error = {0};
  nf_encoded encoded;
  nf_profile *p = open_handle(profile, function, &error);
  if (p && nf_profile_encode(p, moment(end_time), duration_nanos ? *duration_nanos : -1, moment(start_time),
                             codec, &encoded, &error))
    return (ddog_prof_Profile_SerializeResult){
        .tag = DDOG_PROF_PROFILE_SERIALIZE_RESULT_OK,
        .ok = {.start = timespec(encoded.start),
               .end = timespec(encoded.end),
               .buffer = {encoded.bytes.data, encoded.bytes.len, encoded.bytes.capacity},
               .endpoints_stats = (ddog_prof_ProfiledEndpointsStats *)(void *)encoded.endpoint_stats}};
  if (p) prefix(&error, function);
  return (ddog_prof_Profile_SerializeResult){.tag = DDOG_PROF_PROFILE_SERIALIZE_RESULT_ERR,
                                             .err = nf_abi_take_error(&error)};
}

struct ddog_prof_Profile_SerializeResult ddog_prof_Profile_serialize(struct ddog_prof_Profile *profile,
                                                                     const struct ddog_Timespec *end_time,
                                                                     const int64_t *duration_nanos,
                                                                     const struct ddog_Timespec *start_time) {
  return serialize(profile, end_time, duration_nanos, start_time, NF_CODEC_LZ4_FRAME,
                   "ddog_prof_Profile_serialize");
}

struct ddog_prof_Profile_SerializeResult
ddog_prof_Profile_serialize_as(struct ddog_prof_Profile *profile, const struct ddog_Timespec *end_time,
                               const int64_t *duration_nanos, const struct ddog_Timespec *start_time,
                               ddog_prof_Codec codec) {
  static const char *const function = "ddog_prof_Profile_serialize_as";
  if ((unsigned)codec < NF_CODEC_COUNT)
    return serialize(profile, end_time, duration_nanos, start_time, (nf_codec_kind)codec, function);
  nf_error error = {0};
  nf_error_set(&error, "%s failed: there is no codec %d", function, (int)codec);
  return (ddog_prof_Profile_SerializeResult){.tag = DDOG_PROF_PROFILE_SERIALIZE_RESULT_ERR,
                                             .err = nf_abi_take_error(&error)};
}

void ddog_prof_EncodedProfile_drop(struct ddog_prof_EncodedProfile *profile) {
  if (!profile) return;
  nf_pages_free((void *)(uintptr_t)profile->buffer.ptr, profile->buffer.capacity);
  nf_endpoint_stats_drop((nf_endpoint_stats *)(void *)profile->endpoints_stats);
  memset(profile, 0, sizeof *profile);
}

/* ---- beyond version 6 ---- */

struct ddog_prof_Profile_Result ddog_prof_Profile_set_budget(struct ddog_prof_Profile *profile,
                                                             uint64_t bytes) {
  nf_error error = {0};
  nf_profile *p = open_handle(profile, "ddog_prof_Profile_set_budget", &error);
  if (p) nf_profile_set_budget(p, bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX);
  return result(p != NULL, &error);
}

struct ddog_prof_Profile_Stats ddog_prof_Profile_stats(const struct ddog_prof_Profile *profile) {
  const nf_profile *p = profile ? (const nf_profile *)(const void *)profile->inner : NULL;
  if (!p) return (ddog_prof_Profile_Stats){0};
  size_t budget = p->store.account.budget;
  return (ddog_prof_Profile_Stats){.memory_bytes = nf_profile_held(p),
                                   .budget_bytes = budget == SIZE_MAX ? 0 : budget,
                                   .samples_refused = p->store.refused,
                                   .samples_aggregated = nf_samples_count(&p->store.samples),
                                   .samples_timestamped = p->store.timeline.count};
}
