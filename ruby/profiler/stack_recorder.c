#include "stack_recorder.h"

#include "fork_watch.h"
#include "text_repair.h"
#include "time_helpers.h"

#include <ruby/thread.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name, *unit;
} value_types[NF_VALUE_TYPES] = {
    [NF_VALUE_CPU_TIME] = {"cpu-time", "nanoseconds"},
    [NF_VALUE_CPU_SAMPLES] = {"cpu-samples", "count"},
    [NF_VALUE_WALL_TIME] = {"wall-time", "nanoseconds"},
    [NF_VALUE_ALLOC_SAMPLES] = {"alloc-samples", "count"},
    [NF_VALUE_HEAP_LIVE_SAMPLES] = {"heap-live-samples", "count"},
    [NF_VALUE_HEAP_LIVE_SIZE] = {"heap-live-size", "bytes"},
    [NF_VALUE_TIMELINE] = {"timeline", "nanoseconds"},
};

typedef struct slot {
  ddog_prof_Profile profile;
  bool usable;
  ddog_Timespec start;
  uint64_t samples;
} slot;

struct nf_stack_recorder {
  slot slots[2];
  int active;
  bool initialized;
  bool serializing; // the inactive slot belongs to a thread without the GVL
  uint64_t fork_generation;
  uint8_t order[NF_VALUE_TYPES]; // nf_value_type at each position of the profile
  uint8_t enabled;
  uint64_t recorded_samples;
  uint64_t repaired_samples; // had text that was not UTF-8
  uint64_t refused_samples;
  char first_refusal[sizeof(((nf_failure *)0)->text)];
  uint64_t serializations, samples_in_last_profile;
};

nf_value_type nf_value_type_named(const char *name, size_t length) {
  for (int i = 0; i < NF_VALUE_TYPES; i++) {
    if (strlen(value_types[i].name) == length && memcmp(value_types[i].name, name, length) == 0)
      return (nf_value_type)i;
  }
  return NF_VALUE_TYPES;
}

// --- slots ---

static bool slot_new(const nf_stack_recorder *recorder, slot *slot, ddog_Timespec start,
                     nf_failure *failure) {
  ddog_prof_ValueType types[NF_VALUE_TYPES];
  for (int i = 0; i < recorder->enabled; i++) {
    const char *name = value_types[recorder->order[i]].name, *unit = value_types[recorder->order[i]].unit;
    types[i] = (ddog_prof_ValueType){.type_ = nf_slice_of_text(name, strlen(name)),
                                     .unit = nf_slice_of_text(unit, strlen(unit))};
  }
  slot->usable = false;
  ddog_prof_Profile_NewResult result = ddog_prof_Profile_new(
      (ddog_prof_Slice_ValueType){.ptr = types, .len = recorder->enabled}, NULL, &start);
  if (result.tag == DDOG_PROF_PROFILE_NEW_RESULT_ERR) {
    return nf_failure_take(failure, "a profile cannot be created", &result.err);
  }
  slot->profile = result.ok;
  slot->usable = true;
  slot->samples = 0;
  slot->start = start;
  return true;
}

static bool slot_reset(slot *slot, ddog_Timespec start, nf_failure *failure) {
  ddog_prof_Profile_Result result = ddog_prof_Profile_reset(&slot->profile, &start);
  if (result.tag == DDOG_PROF_PROFILE_RESULT_ERR) {
    return nf_failure_take(failure, "a profile cannot be reset", &result.err);
  }
  slot->samples = 0;
  slot->start = start;
  return true;
}

static void slot_drop(slot *slot) {
  if (slot->usable) ddog_prof_Profile_drop(&slot->profile);
  slot->usable = false;
}

bool nf_stack_recorder_reset_after_fork(nf_stack_recorder *recorder, nf_failure *failure) {
  if (!recorder->initialized) return true;
  ddog_Timespec now = nf_time_now();
  bool torn = recorder->serializing && recorder->fork_generation != nf_fork_watch_generation();
  for (int i = 0; i < 2; i++) {
    slot *slot = &recorder->slots[i];
    if (recorder->serializing && i != recorder->active) {
      if (!torn) continue;  // same process, its thread is still at it
      slot->usable = false; // given up as it is: nothing in it can be trusted, not even enough to free it
    }
    bool ok = slot->usable ? slot_reset(slot, now, failure) : slot_new(recorder, slot, now, failure);
    if (!ok) return false;
  }
  if (torn) recorder->serializing = false;
  if (!recorder->serializing) recorder->active = 0;
  recorder->fork_generation = nf_fork_watch_generation();
  recorder->recorded_samples = recorder->repaired_samples = recorder->refused_samples = 0;
  recorder->serializations = recorder->samples_in_last_profile = 0;
  return true;
}

static bool ready(nf_stack_recorder *recorder, nf_failure *failure) {
  if (!recorder->initialized) return nf_failure_set(failure, "the StackRecorder was not initialized");
  if (recorder->fork_generation == nf_fork_watch_generation()) return true;
  return nf_stack_recorder_reset_after_fork(recorder, failure); // nobody told us about the fork
}

// --- recording ---

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

// The sample was refused: if that was for its text, adds a repaired copy. Uses the plain heap, which cannot
// start a GC.
static bool add_repaired(nf_stack_recorder *recorder, ddog_prof_Sample sample, int64_t timestamp) {
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
  ddog_prof_Profile_Result result =
      ddog_prof_Profile_add(&recorder->slots[recorder->active].profile, sample, timestamp);
  bool added = result.tag == DDOG_PROF_PROFILE_RESULT_OK;
  if (!added) ddog_Error_drop(&result.err);
  free(copy);
  return added;
}

bool nf_stack_recorder_record(nf_stack_recorder *recorder, ddog_prof_Slice_Location locations,
                              const nf_sample_values *values, ddog_prof_Slice_Label labels, int64_t timestamp,
                              nf_failure *failure) {
  if (!ready(recorder, failure)) return false;
  int64_t ordered[NF_VALUE_TYPES];
  for (int i = 0; i < recorder->enabled; i++) ordered[i] = values->value[recorder->order[i]];
  ddog_prof_Sample sample = {
      .locations = locations, .values = {.ptr = ordered, .len = recorder->enabled}, .labels = labels};
  ddog_prof_Profile_Result result =
      ddog_prof_Profile_add(&recorder->slots[recorder->active].profile, sample, timestamp);
  if (result.tag == DDOG_PROF_PROFILE_RESULT_ERR) {
    if (!add_repaired(recorder, sample, timestamp)) {
      nf_failure_take(failure, "a sample cannot be recorded", &result.err);
      if (recorder->refused_samples++ == 0)
        memcpy(recorder->first_refusal, failure->text, sizeof(failure->text));
      return false;
    }
    ddog_Error_drop(&result.err);
    recorder->repaired_samples++;
  }
  recorder->slots[recorder->active].samples++;
  recorder->recorded_samples++;
  return true;
}

void nf_stack_recorder_set_endpoint(nf_stack_recorder *recorder, uint64_t local_root_span_id,
                                    ddog_CharSlice endpoint) {
  nf_failure failure;
  if (!ready(recorder, &failure)) return;
  ddog_prof_Profile_Result result = ddog_prof_Profile_set_endpoint(&recorder->slots[recorder->active].profile,
                                                                   local_root_span_id, endpoint);
  if (result.tag == DDOG_PROF_PROFILE_RESULT_ERR) ddog_Error_drop(&result.err);
}

// --- serializing ---

typedef struct serialization {
  nf_stack_recorder *recorder;
  VALUE recorder_object;
  slot *slot;
  ddog_Timespec finish;
  enum ddog_prof_Codec codec;
  bool ran;
  ddog_prof_Profile_SerializeResult result;
} serialization;

static void *serialize_without_gvl(void *data) {
  serialization *call = data;
  call->result =
      ddog_prof_Profile_serialize_as(&call->slot->profile, &call->finish, NULL, &call->finish, call->codec);
  call->ran = true;
  return NULL;
}

static VALUE time_of(ddog_Timespec time) {
  struct timespec spec = {.tv_sec = (time_t)time.seconds, .tv_nsec = time.nanoseconds};
  return rb_time_timespec_new(&spec, INT_MAX - 1); // UTC
}

static VALUE convert(VALUE data) {
  serialization *call = (serialization *)data;
  if (call->result.tag == DDOG_PROF_PROFILE_SERIALIZE_RESULT_ERR) {
    ddog_CharSlice message = ddog_Error_message(&call->result.err);
    return rb_ary_new_from_args(2, ID2SYM(rb_intern("error")),
                                rb_utf8_str_new(message.ptr, (long)message.len));
  }
  ddog_prof_EncodedProfile *encoded = &call->result.ok;
  VALUE bytes = rb_str_new((const char *)encoded->buffer.ptr, (long)encoded->buffer.len);
  VALUE parts = rb_ary_new_from_args(3, time_of(encoded->start), time_of(encoded->end), bytes);
  return rb_ary_new_from_args(2, ID2SYM(rb_intern("ok")), parts);
}

static VALUE drop_result(VALUE data) {
  serialization *call = (serialization *)data;
  if (call->result.tag == DDOG_PROF_PROFILE_SERIALIZE_RESULT_ERR) {
    ddog_Error_drop(&call->result.err);
  } else {
    ddog_prof_EncodedProfile_drop(&call->result.ok);
  }
  return Qnil;
}

static bool codec_named(VALUE name, enum ddog_prof_Codec *codec) {
  static const struct {
    const char *name;
    enum ddog_prof_Codec codec;
  } codecs[] = {{"lz4", DDOG_PROF_CODEC_LZ4_FRAME},
                {"gzip", DDOG_PROF_CODEC_GZIP},
                {"zstd", DDOG_PROF_CODEC_ZSTD},
                {"none", DDOG_PROF_CODEC_NONE}};
  for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
    if (rb_intern(codecs[i].name) == SYM2ID(name)) {
      *codec = codecs[i].codec;
      return true;
    }
  }
  return false;
}

static VALUE error_result(const nf_failure *failure) {
  return rb_ary_new_from_args(2, ID2SYM(rb_intern("error")), rb_utf8_str_new_cstr(failure->text));
}

// Makes the other slot the active one and encodes the first. False: why not. When an interrupt is pending,
// `ran` stays false, and everything is as it was: the GVL was not given up, so there can be no sample in the
// other slot.
static bool try_to_serialize(serialization *call, nf_failure *failure) {
  nf_stack_recorder *recorder = call->recorder;
  if (!ready(recorder, failure)) return false;
  if (recorder->serializing) return nf_failure_set(failure, "another thread is serializing this recorder");
  call->slot = &recorder->slots[recorder->active];
  call->finish = nf_time_now();
  if (nf_time_compare(call->finish, call->slot->start) < 0)
    call->finish = call->slot->start; // the clock was set back
  if (!slot_reset(&recorder->slots[1 - recorder->active], call->finish, failure)) return false;

  recorder->active = 1 - recorder->active;
  recorder->serializing = true;
  rb_thread_call_without_gvl2(serialize_without_gvl, call, NULL, NULL); // raises nothing
  recorder->serializing = false;
  if (call->ran) {
    recorder->serializations++;
    recorder->samples_in_last_profile = call->slot->samples;
  } else {
    recorder->active = 1 - recorder->active;
  }
  return true;
}

// [:ok, [start, finish, bytes]] or [:error, text]
static VALUE native_serialize(VALUE self, VALUE recorder_object, VALUE codec_name) {
  (void)self;
  nf_stack_recorder *recorder = nf_stack_recorder_from(recorder_object);
  NF_ENFORCE_TYPE(codec_name, T_SYMBOL);
  serialization call = {.recorder = recorder, .recorder_object = recorder_object};
  if (!codec_named(codec_name, &call.codec)) {
    rb_raise(rb_eArgError, "unknown codec %" PRIsVALUE " (lz4, gzip, zstd and none are known)", codec_name);
  }
  for (;;) {
    nf_failure failure;
    if (!try_to_serialize(&call, &failure)) return error_result(&failure);
    if (call.ran) break;
    rb_thread_check_ints(); // may raise: nothing is lost, nothing is held
  }
  VALUE result = rb_ensure(convert, (VALUE)&call, drop_result, (VALUE)&call);
  RB_GC_GUARD(call.recorder_object);
  return result;
}

// --- the Ruby class ---

static void recorder_free(void *data) {
  nf_stack_recorder *recorder = data;
  slot_drop(&recorder->slots[recorder->active]);
  // Freed in a child, in whose parent a thread was serializing: left as it is, see above.
  if (!recorder->serializing) slot_drop(&recorder->slots[1 - recorder->active]);
  ruby_xfree(recorder);
}

static size_t recorder_size(const void *data) {
  (void)data;
  return sizeof(nf_stack_recorder);
}

static const rb_data_type_t recorder_type = {
    .wrap_struct_name = "Datadog::Profiling::StackRecorder",
    .function = {.dfree = recorder_free, .dsize = recorder_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE recorder_allocate(VALUE klass) {
  nf_stack_recorder *recorder;
  return TypedData_Make_Struct(klass, nf_stack_recorder, &recorder_type, recorder);
}

nf_stack_recorder *nf_stack_recorder_from(VALUE object) {
  nf_stack_recorder *recorder;
  TypedData_Get_Struct(object, nf_stack_recorder, &recorder_type, recorder);
  return recorder;
}

static VALUE native_initialize(VALUE self, VALUE recorder_object, VALUE cpu_time_enabled,
                               VALUE alloc_samples_enabled, VALUE heap_samples_enabled,
                               VALUE heap_size_enabled, VALUE heap_sample_every, VALUE timeline_enabled) {
  (void)self;
  nf_stack_recorder *recorder = nf_stack_recorder_from(recorder_object);
  bool enabled[NF_VALUE_TYPES] = {
      [NF_VALUE_CPU_TIME] = NF_ENFORCE_BOOLEAN(cpu_time_enabled),
      [NF_VALUE_CPU_SAMPLES] = true,
      [NF_VALUE_WALL_TIME] = true,
      [NF_VALUE_ALLOC_SAMPLES] = NF_ENFORCE_BOOLEAN(alloc_samples_enabled),
      [NF_VALUE_HEAP_LIVE_SAMPLES] = NF_ENFORCE_BOOLEAN(heap_samples_enabled),
      [NF_VALUE_HEAP_LIVE_SIZE] = NF_ENFORCE_BOOLEAN(heap_size_enabled),
      [NF_VALUE_TIMELINE] = NF_ENFORCE_BOOLEAN(timeline_enabled),
  };
  NF_ENFORCE_TYPE(heap_sample_every, T_FIXNUM);
  if (FIX2LONG(heap_sample_every) <= 0) rb_raise(rb_eArgError, "heap_sample_every must be greater than 0");
  if (enabled[NF_VALUE_HEAP_LIVE_SAMPLES] || enabled[NF_VALUE_HEAP_LIVE_SIZE]) {
    rb_raise(rb_eArgError, "this version of the profiler does not record live heap objects");
  }
  if (recorder->initialized) rb_raise(rb_eRuntimeError, "the StackRecorder is initialized already");

  // With every type the order is that of the enum; else CPU time, if it is there, comes third.
  static const uint8_t all_order[] = {0, 1, 2, 3, 4, 5, 6}, some_order[] = {1, 2, 0, 3, 4, 5, 6};
  bool all = true;
  for (int i = 0; i < NF_VALUE_TYPES; i++) all = all && enabled[i];
  for (int i = 0; i < NF_VALUE_TYPES; i++) {
    uint8_t type = all ? all_order[i] : some_order[i];
    if (enabled[type]) recorder->order[recorder->enabled++] = type;
  }
  nf_failure failure;
  ddog_Timespec now = nf_time_now();
  if (!slot_new(recorder, &recorder->slots[0], now, &failure) ||
      !slot_new(recorder, &recorder->slots[1], now, &failure)) {
    recorder->enabled = 0;
    slot_drop(&recorder->slots[0]);
    rb_raise(rb_eRuntimeError, "%s", failure.text);
  }
  recorder->fork_generation = nf_fork_watch_generation();
  recorder->initialized = true;
  RB_GC_GUARD(recorder_object);
  return Qtrue;
}

static VALUE native_reset_after_fork(VALUE self, VALUE recorder_object) {
  (void)self;
  nf_failure failure;
  if (!nf_stack_recorder_reset_after_fork(nf_stack_recorder_from(recorder_object), &failure)) {
    rb_raise(rb_eRuntimeError, "%s", failure.text);
  }
  return Qtrue;
}

static VALUE native_stats(VALUE self, VALUE recorder_object) {
  (void)self;
  nf_stack_recorder *recorder = nf_stack_recorder_from(recorder_object);
  VALUE stats = rb_hash_new();
  rb_hash_aset(stats, ID2SYM(rb_intern("recorded_samples")), ULL2NUM(recorder->recorded_samples));
  rb_hash_aset(stats, ID2SYM(rb_intern("repaired_samples")), ULL2NUM(recorder->repaired_samples));
  rb_hash_aset(stats, ID2SYM(rb_intern("refused_samples")), ULL2NUM(recorder->refused_samples));
  rb_hash_aset(stats, ID2SYM(rb_intern("first_refusal")),
               recorder->refused_samples ? rb_utf8_str_new_cstr(recorder->first_refusal) : Qnil);
  rb_hash_aset(stats, ID2SYM(rb_intern("serializations")), ULL2NUM(recorder->serializations));
  rb_hash_aset(stats, ID2SYM(rb_intern("samples_in_last_profile")),
               ULL2NUM(recorder->samples_in_last_profile));
  return stats;
}

static VALUE native_active_slot(VALUE self, VALUE recorder_object) {
  (void)self;
  return INT2FIX(nf_stack_recorder_from(recorder_object)->active + 1);
}

static VALUE native_record_endpoint(VALUE self, VALUE recorder_object, VALUE local_root_span_id,
                                    VALUE endpoint) {
  (void)self;
  NF_ENFORCE_TYPE(endpoint, T_STRING);
  nf_stack_recorder_set_endpoint(nf_stack_recorder_from(recorder_object), NUM2ULL(local_root_span_id),
                                 nf_slice_of(endpoint));
  return Qtrue;
}

// What a fork by another thread in the middle of serializing leaves in the child.
static VALUE native_pretend_torn_by_fork(VALUE self, VALUE recorder_object) {
  (void)self;
  nf_stack_recorder *recorder = nf_stack_recorder_from(recorder_object);
  recorder->serializing = true;
  recorder->slots[1 - recorder->active].profile =
      (ddog_prof_Profile){.inner = (void *)(uintptr_t)16}; // deadly
  return Qtrue;
}

void nf_stack_recorder_define(VALUE profiling) {
  VALUE klass = rb_define_class_under(profiling, "StackRecorder", rb_cObject);
  rb_define_alloc_func(klass, recorder_allocate);
  rb_define_singleton_method(klass, "_native_initialize", native_initialize, 7);
  rb_define_singleton_method(klass, "_native_serialize", native_serialize, 2);
  rb_define_singleton_method(klass, "_native_reset_after_fork", native_reset_after_fork, 1);
  rb_define_singleton_method(klass, "_native_stats", native_stats, 1);
  VALUE testing = rb_define_module_under(klass, "Testing");
  rb_define_singleton_method(testing, "_native_active_slot", native_active_slot, 1);
  rb_define_singleton_method(testing, "_native_record_endpoint", native_record_endpoint, 3);
  rb_define_singleton_method(testing, "_native_pretend_torn_by_fork", native_pretend_torn_by_fork, 1);
}
