#include "stack_recorder.h"

#include "fork_watch.h"
#include "heap_recorder.h"
#include "sample_add.h"
#include "stack_recorder_internal.h"
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

typedef nf_recorder_slot slot;

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
  slot->started_at_ns = nf_time_monotonic_ns();
  return true;
}

static bool slot_reset(slot *slot, ddog_Timespec start, nf_failure *failure) {
  ddog_prof_Profile_Result result = ddog_prof_Profile_reset(&slot->profile, &start);
  if (result.tag == DDOG_PROF_PROFILE_RESULT_ERR) {
    return nf_failure_take(failure, "a profile cannot be reset", &result.err);
  }
  slot->samples = 0;
  slot->start = start;
  slot->started_at_ns = nf_time_monotonic_ns();
  return true;
}

// Now; or, if the clock was set since the profile began, what it would show otherwise.
static ddog_Timespec slot_finish(const slot *slot, ddog_Timespec now) {
  int64_t elapsed = nf_time_monotonic_ns() - slot->started_at_ns;
  struct timespec passed = nf_time_to_timespec(slot->start.nanoseconds + elapsed);
  ddog_Timespec expected = {.seconds = slot->start.seconds + passed.tv_sec,
                            .nanoseconds = (uint32_t)passed.tv_nsec};
  int64_t apart = now.seconds - expected.seconds;
  return apart < -1 || apart > 1 || nf_time_compare(now, slot->start) < 0 ? expected : now;
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
  recorder->allocated.object = 0;
  if (recorder->fork_generation != nf_fork_watch_generation()) {
    // What was tracked lives on in the child. Whoever read it is gone.
    nf_heap_recorder_finish(&recorder->heap, false);
    nf_stack_recorder_watch_objects(recorder, false); // until a worker starts
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

static void put_in_order(const nf_stack_recorder *recorder, const nf_sample_values *values,
                         int64_t *ordered) {
  for (int i = 0; i < recorder->enabled; i++) ordered[i] = values->value[recorder->order[i]];
}

static void count_refusal(nf_stack_recorder *recorder, const nf_failure *failure) {
  if (recorder->refused_samples++ > 0) return;
  memcpy(recorder->first_refusal, failure->text, sizeof(failure->text));
}

static bool add_sample(nf_stack_recorder *recorder, slot *slot, ddog_prof_Sample sample, int64_t timestamp,
                       nf_failure *failure) {
  switch (nf_sample_add(&slot->profile, sample, timestamp, failure)) {
  case NF_SAMPLE_ADDED:
    return true;
  case NF_SAMPLE_ADDED_REPAIRED:
    recorder->repaired_samples++;
    return true;
  default:
    count_refusal(recorder, failure);
    return false;
  }
}

bool nf_stack_recorder_record(nf_stack_recorder *recorder, ddog_prof_Slice_Location locations,
                              const nf_sample_values *values, ddog_prof_Slice_Label labels, int64_t timestamp,
                              nf_failure *failure) {
  if (!ready(recorder, failure)) return false;
  int64_t ordered[NF_VALUE_TYPES];
  put_in_order(recorder, values, ordered);
  ddog_prof_Sample sample = {
      .locations = locations, .values = {.ptr = ordered, .len = recorder->enabled}, .labels = labels};
  if (recorder->allocated.object && values->value[NF_VALUE_ALLOC_SAMPLES] > 0) {
    nf_heap_recorder_track(&recorder->heap, recorder->allocated.object, recorder->allocated.weight,
                           recorder->allocated.klass, locations);
    recorder->allocated.object = 0;
  }
  if (!add_sample(recorder, &recorder->slots[recorder->active], sample, timestamp, failure)) return false;
  recorder->slots[recorder->active].samples++;
  recorder->recorded_samples++;
  return true;
}

void nf_stack_recorder_watch_objects(nf_stack_recorder *recorder, bool watch) {
  if (!recorder->heap_enabled) return;
  if (watch) {
    nf_heap_recorder_start(&recorder->heap);
  } else {
    nf_heap_recorder_stop(&recorder->heap);
  }
}

void nf_stack_recorder_track_next(nf_stack_recorder *recorder, VALUE object, uint64_t weight,
                                  ddog_CharSlice klass) {
  recorder->allocated.object = recorder->heap_enabled ? object : 0;
  recorder->allocated.weight = weight;
  recorder->allocated.klass = klass;
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
  bool heap_prepared;
  bool heap_failed; // the live objects are not all there
  nf_failure heap_failure;
  uint64_t heap_samples, heap_repaired;
  ddog_prof_Profile_SerializeResult result;
} serialization;

static bool add_live_object(const nf_heap_sample *object, ddog_prof_Slice_Location locations, void *data) {
  serialization *call = data;
  const nf_stack_recorder *recorder = call->recorder;
  nf_sample_values values = {{0}};
  values.value[NF_VALUE_HEAP_LIVE_SAMPLES] = object->count;
  values.value[NF_VALUE_HEAP_LIVE_SIZE] = object->size;
  int64_t ordered[NF_VALUE_TYPES];
  put_in_order(recorder, &values, ordered);
  ddog_prof_Label labels[2];
  size_t count = 0;
  labels[count++] = (ddog_prof_Label){
      .key = NF_SLICE("gc gen age"), .str = NF_SLICE(""), .num = object->age, .num_unit = NF_SLICE("")};
  if (object->klass.len > 0) {
    labels[count++] = (ddog_prof_Label){
        .key = NF_SLICE("allocation class"), .str = object->klass, .num_unit = NF_SLICE("")};
  }
  ddog_prof_Sample sample = {.locations = locations,
                             .values = {.ptr = ordered, .len = recorder->enabled},
                             .labels = {.ptr = labels, .len = count}};
  nf_sample_add_result result = nf_sample_add(&call->slot->profile, sample, 0, &call->heap_failure);
  call->heap_failed = result == NF_SAMPLE_REFUSED;
  if (result == NF_SAMPLE_ADDED_REPAIRED) call->heap_repaired++;
  if (!call->heap_failed) call->heap_samples++;
  return !call->heap_failed; // the others would not fit either
}

static void *serialize_without_gvl(void *data) {
  serialization *call = data;
  if (call->heap_prepared) nf_heap_recorder_each(&call->recorder->heap, add_live_object, call);
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
  ddog_Timespec now = nf_time_now();
  call->finish = slot_finish(call->slot, now);
  if (!slot_reset(&recorder->slots[1 - recorder->active], now, failure)) return false;

  // Without its live objects a profile is still worth having.
  call->heap_prepared = nf_heap_recorder_prepare(&recorder->heap, &call->heap_failure);
  if (!call->heap_prepared) count_refusal(recorder, &call->heap_failure);
  recorder->active = 1 - recorder->active;
  recorder->serializing = true;
  rb_thread_call_without_gvl2(serialize_without_gvl, call, NULL, NULL); // raises nothing
  recorder->serializing = false;
  if (call->heap_prepared) nf_heap_recorder_finish(&recorder->heap, call->ran);
  if (call->ran) {
    if (call->heap_failed) count_refusal(recorder, &call->heap_failure);
    call->slot->samples += call->heap_samples;
    recorder->recorded_samples += call->heap_samples;
    recorder->repaired_samples += call->heap_repaired;
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
  nf_heap_recorder_deinit(&recorder->heap);
  slot_drop(&recorder->slots[recorder->active]);
  // Freed in a child, in whose parent a thread was serializing: left as it is, see above.
  if (!recorder->serializing) slot_drop(&recorder->slots[1 - recorder->active]);
  ruby_xfree(recorder);
}

static void recorder_compact(void *data) { nf_heap_recorder_compact(&((nf_stack_recorder *)data)->heap); }

static size_t recorder_size(const void *data) {
  const nf_stack_recorder *recorder = data;
  return sizeof(*recorder) + nf_heap_recorder_size(&recorder->heap);
}

static const rb_data_type_t recorder_type = {
    .wrap_struct_name = "Datadog::Profiling::StackRecorder",
    .function = {.dfree = recorder_free, .dsize = recorder_size, .dcompact = recorder_compact},
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
  long sample_every = FIX2LONG(heap_sample_every);
  if ((unsigned long)sample_every > UINT32_MAX) rb_raise(rb_eArgError, "heap_sample_every is too big");
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
  nf_heap_recorder_init(&recorder->heap, enabled[NF_VALUE_HEAP_LIVE_SIZE], (uint32_t)sample_every);
  recorder->heap_enabled = enabled[NF_VALUE_HEAP_LIVE_SAMPLES] || enabled[NF_VALUE_HEAP_LIVE_SIZE];
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

// No more profiles will be made: the VM need not tell us of objects any more.
static VALUE native_forget_objects(VALUE self, VALUE recorder_object) {
  (void)self;
  nf_heap_recorder *heap = &nf_stack_recorder_from(recorder_object)->heap;
  nf_heap_recorder_clear(heap);
  nf_heap_recorder_stop(heap);
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
  if (recorder->heap_enabled) nf_heap_recorder_stats(&recorder->heap, stats);
  return stats;
}

void nf_stack_recorder_define(VALUE profiling) {
  VALUE klass = rb_define_class_under(profiling, "StackRecorder", rb_cObject);
  rb_define_alloc_func(klass, recorder_allocate);
  rb_define_singleton_method(klass, "_native_initialize", native_initialize, 7);
  rb_define_singleton_method(klass, "_native_serialize", native_serialize, 2);
  rb_define_singleton_method(klass, "_native_reset_after_fork", native_reset_after_fork, 1);
  rb_define_singleton_method(klass, "_native_forget_objects", native_forget_objects, 1);
  rb_define_singleton_method(klass, "_native_stats", native_stats, 1);
  nf_stack_recorder_define_testing(klass);
}
