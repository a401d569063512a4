/* Datadog::Profiling::PprofReader._native_read: a pprof file as plain Ruby data. The work is core/reader's; here it is only
 * translated, once everything in it is known to be right. */
#include "core/reader.h"

#include <ruby.h>
#include <ruby/encoding.h>

#include <stdio.h>

typedef struct translation {
  const Pprof__Profile *profile;
  VALUE strings; /* Array of frozen Strings */
} translation;

static VALUE text(const translation *t, int64_t index) { return rb_ary_entry(t->strings, (long)index); }

static VALUE value_type(const translation *t, const Pprof__ValueType *type) {
  return rb_ary_new_from_args(2, text(t, type ? type->type : 0), text(t, type ? type->unit : 0));
}

static VALUE integers(size_t count, const int64_t *values) {
  VALUE array = rb_ary_new_capa((long)count);
  for (size_t i = 0; i < count; i++) rb_ary_push(array, LL2NUM(values[i]));
  return array;
}

static VALUE ids(size_t count, const uint64_t *values) {
  VALUE array = rb_ary_new_capa((long)count);
  for (size_t i = 0; i < count; i++) rb_ary_push(array, ULL2NUM(values[i]));
  return array;
}

static VALUE labels(const translation *t, const Pprof__Sample *sample) {
  VALUE array = rb_ary_new_capa((long)sample->n_label);
  for (size_t i = 0; i < sample->n_label; i++) {
    const Pprof__Label *label = sample->label[i];
    rb_ary_push(array, rb_ary_new_from_args(2, text(t, label->key),
                                            label->str ? text(t, label->str) : LL2NUM(label->num)));
  }
  return array;
}

/* [[function id, line], ...]: one, or more where functions were inlined (the innermost first). */
static VALUE lines(const Pprof__Location *location) {
  VALUE array = rb_ary_new_capa((long)location->n_line);
  for (size_t i = 0; i < location->n_line; i++) {
    const Pprof__Line *line = location->line[i];
    rb_ary_push(array, rb_ary_new_from_args(2, ULL2NUM(line->function_id), LL2NUM(line->line)));
  }
  return array;
}

static void set(VALUE hash, const char *key, VALUE value) { rb_hash_aset(hash, ID2SYM(rb_intern(key)), value); }

static VALUE translate(VALUE data) {
  translation *t = (translation *)data;
  const Pprof__Profile *profile = t->profile;
  t->strings = rb_ary_new_capa((long)profile->n_string_table);
  for (size_t i = 0; i < profile->n_string_table; i++) {
    rb_ary_push(t->strings, rb_obj_freeze(rb_utf8_str_new_cstr(profile->string_table[i])));
  }

  VALUE sample_types = rb_ary_new(), samples = rb_ary_new_capa((long)profile->n_sample);
  VALUE locations = rb_hash_new(), functions = rb_hash_new();
  for (size_t i = 0; i < profile->n_sample_type; i++) {
    rb_ary_push(sample_types, value_type(t, profile->sample_type[i]));
  }
  for (size_t i = 0; i < profile->n_sample; i++) {
    const Pprof__Sample *sample = profile->sample[i];
    rb_ary_push(samples, rb_ary_new_from_args(3, ids(sample->n_location_id, sample->location_id),
                                              integers(sample->n_value, sample->value), labels(t, sample)));
  }
  for (size_t i = 0; i < profile->n_location; i++) {
    const Pprof__Location *location = profile->location[i];
    rb_hash_aset(locations, ULL2NUM(location->id),
                 rb_ary_new_from_args(2, lines(location), ULL2NUM(location->address)));
  }
  for (size_t i = 0; i < profile->n_function; i++) {
    const Pprof__Function *function = profile->function[i];
    rb_hash_aset(functions, ULL2NUM(function->id),
                 rb_ary_new_from_args(3, text(t, function->name), text(t, function->filename),
                                      LL2NUM(function->start_line)));
  }

  VALUE result = rb_hash_new();
  set(result, "sample_types", sample_types);
  set(result, "samples", samples);
  set(result, "locations", locations);
  set(result, "functions", functions);
  set(result, "time_nanos", LL2NUM(profile->time_nanos));
  set(result, "duration_nanos", LL2NUM(profile->duration_nanos));
  set(result, "period_type", profile->period_type ? value_type(t, profile->period_type) : Qnil);
  set(result, "period", LL2NUM(profile->period));
  set(result, "default_sample_type", text(t, profile->default_sample_type));
  RB_GC_GUARD(t->strings);
  return result;
}

static VALUE drop(VALUE data) {
  nf_reader_drop((Pprof__Profile *)((translation *)data)->profile);
  return Qnil;
}

/* _native_read(bytes, max_uncompressed) -> [:ok, Hash] or [:error, why] */
static VALUE native_read(VALUE self, VALUE bytes, VALUE max_uncompressed) {
  (void)self;
  Check_Type(bytes, T_STRING);
  size_t max = NUM2SIZET(max_uncompressed);
  nf_error error = {0};
  Pprof__Profile *profile = NULL;
  if (!nf_reader_read((const uint8_t *)RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes), max, &profile, &error)) {
    char why[512];
    snprintf(why, sizeof why, "%s", error.text ? error.text : "out of memory");
    nf_error_deinit(&error);
    RB_GC_GUARD(bytes);
    VALUE reason = rb_utf8_str_new_cstr(why), scrubbed = rb_str_scrub(reason, Qnil); /* nil: nothing to scrub */
    return rb_ary_new_from_args(2, ID2SYM(rb_intern("error")), NIL_P(scrubbed) ? reason : scrubbed);
  }
  translation t = {.profile = profile};
  VALUE result = rb_ensure(translate, (VALUE)&t, drop, (VALUE)&t);
  return rb_ary_new_from_args(2, ID2SYM(rb_intern("ok")), result);
}

RUBY_FUNC_EXPORTED void Init_datadog_pprof_reader(void) {
  VALUE datadog = rb_define_module("Datadog");
  VALUE profiling = rb_define_module_under(datadog, "Profiling");
  VALUE reader = rb_define_module_under(profiling, "PprofReader");
  rb_define_singleton_method(reader, "_native_read", native_read, 2);
}
