#include "stack_collector.h"

#include "native_files.h"
#include "template_name.h"

#include <stdlib.h>
#include <string.h>

struct nf_stack_collector {
  int max_frames;
  nf_vm_frame *frames;
  ddog_prof_Location *locations;
  nf_native_files *native_files; // NULL: not wanted
};

nf_stack_collector *nf_stack_collector_new(int max_frames, bool native_filenames) {
  nf_stack_collector *collector = calloc(1, sizeof(*collector));
  if (collector == NULL) return NULL;
  collector->max_frames = max_frames;
  collector->frames = calloc((size_t)max_frames, sizeof(*collector->frames));
  collector->locations = calloc((size_t)max_frames, sizeof(*collector->locations));
  if (native_filenames) collector->native_files = nf_native_files_new();
  if (collector->frames == NULL || collector->locations == NULL ||
      (native_filenames && collector->native_files == NULL)) {
    nf_stack_collector_drop(collector);
    return NULL;
  }
  for (int i = 0; i < max_frames; i++) { // what is the same for all locations is written only once
    ddog_prof_Location *location = &collector->locations[i];
    location->mapping.filename = location->mapping.build_id = NF_SLICE("");
    location->function.name = location->function.system_name = location->function.filename = NF_SLICE("");
  }
  return collector;
}

void nf_stack_collector_drop(nf_stack_collector *collector) {
  if (collector == NULL) return;
  free(collector->frames);
  free(collector->locations);
  nf_native_files_drop(collector->native_files);
  free(collector);
}

size_t nf_stack_collector_size(const nf_stack_collector *collector) {
  if (collector == NULL) return 0;
  return sizeof(*collector) + nf_native_files_size(collector->native_files) +
         (size_t)collector->max_frames * (sizeof(*collector->frames) + sizeof(*collector->locations));
}

static void set_location(ddog_prof_Location *location, ddog_CharSlice name, ddog_CharSlice file,
                         int64_t line) {
  location->function.name = name;
  location->function.filename = file;
  location->line = line;
}

// A method written in C.
static void set_native_location(nf_stack_collector *collector, ddog_prof_Location *location,
                                const nf_vm_frame *frame) {
  ddog_CharSlice file = nf_slice_of_text(frame->file, frame->file_length);
  int line = frame->line;
  if (collector->native_files != NULL) {
    ddog_CharSlice library = nf_native_files_of(collector->native_files, frame->function);
    if (library.len > 0) {
      file = library;
      line = 0;
    }
  }
  set_location(location, nf_slice_of_text(frame->name, frame->name_length), file, line);
}

static bool is(ddog_CharSlice text, ddog_CharSlice other) {
  return text.len == other.len && memcmp(text.ptr, other.ptr, text.len) == 0;
}

static ddog_CharSlice waiting_state(const nf_vm_frame *innermost) {
  static const struct {
    ddog_CharSlice method, state;
  } known[] = {
      {{"sleep", 5}, {"sleeping", 8}},       {{"select", 6}, {"waiting", 7}},
      {{"synchronize", 11}, {"blocked", 7}}, {{"lock", 4}, {"blocked", 7}},
      {{"join", 4}, {"blocked", 7}},         {{"wait_readable", 13}, {"network", 7}},
      {{"pop", 3}, {"waiting", 7}},
  };
  // Newer Rubies have some of them written in Ruby: Queue#pop since 3.2, Mutex since 4.0.
  static const ddog_CharSlice internal = {"<internal:thread_sync>", 22};
  if (innermost->native || is(nf_slice_of_text(innermost->file, innermost->file_length), internal)) {
    ddog_CharSlice name = nf_slice_of_text(innermost->name, innermost->name_length);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
      if (is(name, known[i].method)) return known[i].state;
    }
  }
  return NF_SLICE("unknown");
}

static bool set_state(const nf_sample_values *values, const nf_vm_frame *innermost, ddog_prof_Label *state,
                      nf_failure *failure) {
  if (values->value[NF_VALUE_CPU_SAMPLES] <= 0) return true;
  if (state == NULL) return nf_failure_set(failure, "BUG: a CPU or wall-time sample without a state label");
  if (is(state->str, NF_STATE_WAITING_FOR_GVL)) return true;
  state->str = NF_SLICE("unknown");
  if (values->value[NF_VALUE_CPU_TIME] > 0) {
    state->str = NF_SLICE("had cpu");
  } else if (values->value[NF_VALUE_WALL_TIME] > 0 && innermost != NULL) {
    state->str = waiting_state(innermost);
  }
  return true;
}

bool nf_stack_collector_sample(nf_stack_collector *collector, const nf_vm_thread *thread,
                               nf_stack_recorder *recorder, const nf_sample_values *values,
                               ddog_prof_Label *labels, size_t label_count, ddog_prof_Label *state,
                               int64_t timestamp, nf_failure *failure) {
  nf_vm_frame *frames = collector->frames;
  ddog_prof_Location *locations = collector->locations;
  int total;
  int count = nf_vm_stack_frames(thread, frames, collector->max_frames, &total);
  if (!set_state(values, count > 0 ? &frames[0] : NULL, state, failure)) return false;
  if (count == NF_VM_NO_RUBY_STACK) {
    return nf_stack_collector_sample_text(collector, NF_SLICE("In native code"), recorder, values, labels,
                                          label_count, timestamp, failure);
  }

  char omitted[64];
  bool too_deep = total > count;
  for (int i = 0; i < (too_deep ? count - 1 : count); i++) {
    if (frames[i].native) {
      set_native_location(collector, &locations[i], &frames[i]);
      continue;
    }
    size_t name_length = frames[i].name_length;
    if (name_length > 0 && frames[i].name[0] == '_') {
      name_length =
          nf_template_name_length(frames[i].name, name_length, frames[i].file, frames[i].file_length);
    }
    set_location(&locations[i], nf_slice_of_text(frames[i].name, name_length),
                 nf_slice_of_text(frames[i].file, frames[i].file_length), frames[i].line);
  }
  if (too_deep) {
    int length = snprintf(omitted, sizeof(omitted), "%d frames omitted", total - (count - 1));
    set_location(&locations[count - 1], NF_SLICE(""), nf_slice_of_text(omitted, (size_t)length), 0);
  }
  return nf_stack_recorder_record(
      recorder, (ddog_prof_Slice_Location){.ptr = locations, .len = (uintptr_t)count}, values,
      (ddog_prof_Slice_Label){.ptr = labels, .len = label_count}, timestamp, failure);
}

bool nf_stack_collector_sample_text(nf_stack_collector *collector, ddog_CharSlice text,
                                    nf_stack_recorder *recorder, const nf_sample_values *values,
                                    ddog_prof_Label *labels, size_t label_count, int64_t timestamp,
                                    nf_failure *failure) {
  set_location(&collector->locations[0], NF_SLICE(""), text, 0);
  return nf_stack_recorder_record(recorder, (ddog_prof_Slice_Location){.ptr = collector->locations, .len = 1},
                                  values, (ddog_prof_Slice_Label){.ptr = labels, .len = label_count},
                                  timestamp, failure);
}

int nf_stack_collector_check_max_frames(VALUE max_frames) {
  NF_ENFORCE_TYPE(max_frames, T_FIXNUM);
  long frames = FIX2LONG(max_frames);
  if (frames < 0) rb_raise(rb_eArgError, "invalid max_frames: %ld is negative", frames);
  if (frames < NF_MAX_FRAMES_LOWEST || frames > NF_MAX_FRAMES_HIGHEST) {
    rb_raise(rb_eArgError, "invalid max_frames: %ld is not between %d and %d", frames, NF_MAX_FRAMES_LOWEST,
             NF_MAX_FRAMES_HIGHEST);
  }
  return (int)frames;
}

// --- test door: one sample with given values and labels ---

typedef struct single_sample {
  VALUE thread, recorder, values, labels, numeric_labels;
  bool in_gc;
  nf_stack_collector *collector;
} single_sample;

static int set_value(VALUE name, VALUE value, VALUE data) {
  nf_sample_values *values = (nf_sample_values *)data;
  NF_ENFORCE_TYPE(name, T_STRING);
  nf_value_type type = nf_value_type_named(RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
  if (type == NF_VALUE_TYPES) rb_raise(rb_eArgError, "unknown value type %" PRIsVALUE, name);
  values->value[type] = NUM2LL(value);
  return ST_CONTINUE;
}

static VALUE run_single_sample(VALUE data) {
  single_sample *request = (single_sample *)data;
  nf_sample_values values = {{0}};
  rb_hash_foreach(request->values, set_value, (VALUE)&values);

  long text_count = RARRAY_LEN(request->labels), numeric_count = RARRAY_LEN(request->numeric_labels);
  VALUE buffer; // freed by the GC even if something below raises
  ddog_prof_Label *labels = ALLOCV_N(ddog_prof_Label, buffer, text_count + numeric_count + 1);
  memset(labels, 0, sizeof(*labels) * (size_t)(text_count + numeric_count));
  ddog_prof_Label *state = NULL;
  for (long i = 0; i < text_count + numeric_count; i++) {
    VALUE pair = i < text_count ? RARRAY_AREF(request->labels, i)
                                : RARRAY_AREF(request->numeric_labels, i - text_count);
    NF_ENFORCE_TYPE(pair, T_ARRAY);
    VALUE key = rb_ary_entry(pair, 0), value = rb_ary_entry(pair, 1);
    NF_ENFORCE_TYPE(key, T_STRING);
    labels[i] = (ddog_prof_Label){.key = nf_slice_of(key), .str = NF_SLICE(""), .num_unit = NF_SLICE("")};
    if (i < text_count) {
      NF_ENFORCE_TYPE(value, T_STRING);
      labels[i].str = nf_slice_of(value);
      if (is(labels[i].key, NF_SLICE("state"))) state = &labels[i];
    } else {
      labels[i].num = NUM2LL(value);
    }
  }
  nf_failure failure;
  size_t count = (size_t)(text_count + numeric_count);
  nf_vm_thread *thread = nf_vm_thread_from(request->thread);
  nf_stack_recorder *recorder = nf_stack_recorder_from(request->recorder);
  bool ok = request->in_gc
                ? nf_stack_collector_sample_text(request->collector, NF_SLICE("Garbage Collection"), recorder,
                                                 &values, labels, count, 0, &failure)
                : nf_stack_collector_sample(request->collector, thread, recorder, &values, labels, count,
                                            state, 0, &failure);
  ALLOCV_END(buffer);
  if (!ok) {
    rb_raise(strncmp(failure.text, "BUG", 3) == 0 ? rb_eRuntimeError : rb_eArgError, "%s", failure.text);
  }
  return Qtrue;
}

static VALUE drop_collector(VALUE data) {
  nf_stack_collector_drop((nf_stack_collector *)data);
  return Qnil;
}

static VALUE native_sample(VALUE self, VALUE thread, VALUE recorder, VALUE values, VALUE labels,
                           VALUE numeric_labels, VALUE max_frames, VALUE in_gc) {
  (void)self;
  NF_ENFORCE_THREAD(thread);
  nf_stack_recorder_from(recorder);
  NF_ENFORCE_TYPE(values, T_HASH);
  NF_ENFORCE_TYPE(labels, T_ARRAY);
  NF_ENFORCE_TYPE(numeric_labels, T_ARRAY);
  single_sample request = {thread, recorder, values, labels, numeric_labels, NF_ENFORCE_BOOLEAN(in_gc), NULL};
  request.collector = nf_stack_collector_new(nf_stack_collector_check_max_frames(max_frames), false);
  if (request.collector == NULL) rb_memerror();
  return rb_ensure(run_single_sample, (VALUE)&request, drop_collector, (VALUE)request.collector);
}

void nf_stack_collector_define(VALUE collectors) {
  VALUE klass = rb_define_class_under(collectors, "Stack", rb_cObject);
  rb_undef_alloc_func(klass);
  VALUE testing = rb_define_module_under(klass, "Testing");
  rb_define_singleton_method(testing, "_native_sample", native_sample, 7);
}
