#define _GNU_SOURCE
#include "tests/bench/bare.h"

#include <stdlib.h>
#include <string.h>

#include "tests/bench/bare_encode.h"
#include "tests/bench/bare_table.h"
#include "tests/bench/measure.h"

const char *const bare_names[N_BARE_KINDS] = {"bare touch", "bare content", "bare pointer"};

#define LITERAL(string)                                                                                      \
  (text) { "" string, sizeof(string) - 1 }

/* The fields of the v6 interface, so that as many bytes are read and written. */
typedef struct location {
  uint64_t mapping[3];
  text mapping_file, build_id, name, system_name, file;
  int64_t start_line;
  uint64_t address;
  int64_t line;
} location;

typedef struct label {
  text key, str;
  int64_t num;
  text num_unit;
} label;

static bare_kind kind;

/* The sample that is being added. */
static struct {
  location *locations;
  hash *functions; /* of each location, found while adding */
  uint32_t depth;
  label labels[5];
  uint32_t n_labels;
  int64_t values[N_VALUES];
} sample;

/* What is known is kept as the bytes of pprof that it will become; an id is the place in its table. */
static table strings, functions, locations, stacks, label_sets, samples;
static buffer string_bytes, function_bytes, location_bytes, stack_bytes, label_bytes;
static buffer stack_spans, label_spans; /* span */
static buffer keys;                     /* bare_key of each aggregated sample */
static buffer values;                   /* N_VALUES of each */
static buffer timeline;                 /* bare_timed, its values as varints; again and again */
static volatile uint64_t sink;

/* ---- interning ---- */

static uint32_t intern(text s) {
  slot *found = table_find(&strings, hash_of_text(s));
  if (found->used) return found->value;
  uint32_t id = table_insert(&strings, found, hash_of_text(s));
  uint8_t *p = buffer_room(&string_bytes, s.len + 16), *end = p;
  *end++ = 6 << 3 | 2;
  end = put_varint(end, s.len);
  memcpy(end, s.ptr, s.len);
  string_bytes.len += (size_t)(end - p) + s.len;
  return id;
}

/* A message of at most 127 bytes as field `number` of the profile. */
static void append_message(buffer *to, uint8_t number, const uint8_t *message, size_t len) {
  uint8_t *p = buffer_room(to, len + 2);
  p[0] = (uint8_t)(number << 3 | 2);
  p[1] = (uint8_t)len;
  memcpy(p + 2, message, len);
  to->len += len + 2;
}

static uint32_t intern_function(hash h, text name, text file) {
  slot *found = table_find(&functions, h);
  if (found->used) return found->value + 1;
  uint32_t id = table_insert(&functions, found, h) + 1;
  uint8_t m[64], *end = put_field(m, 1, id);
  end = put_field(end, 2, intern(name));
  end = put_field(end, 4, intern(file));
  append_message(&function_bytes, 5, m, (size_t)(end - m));
  return id;
}

static uint32_t intern_location(hash function, const location *l) {
  hash h = hash_with(function, (uint64_t)l->line, 1);
  slot *found = table_find(&locations, h);
  if (found->used) return found->value + 1;
  uint32_t id = table_insert(&locations, found, h) + 1;
  uint8_t line[32], *line_end = put_field(line, 1, intern_function(function, l->name, l->file));
  line_end = put_field(line_end, 2, (uint64_t)l->line);
  uint8_t m[64], *end = put_field(m, 1, id);
  *end++ = 4 << 3 | 2;
  *end++ = (uint8_t)(line_end - line);
  memcpy(end, line, (size_t)(line_end - line));
  append_message(&location_bytes, 4, m, (size_t)(end - m) + (size_t)(line_end - line));
  return id;
}

static void end_span(buffer *bytes, buffer *spans, const uint8_t *begin, const uint8_t *end) {
  span s = {(uint32_t)bytes->len, (uint32_t)(end - begin)};
  bytes->len += s.len;
  buffer_append(spans, &s, sizeof s);
}

static __attribute__((noinline)) uint32_t new_stack(hash h, slot *found) {
  uint32_t id = table_insert(&stacks, found, h);
  uint8_t *p = buffer_room(&stack_bytes, sample.depth * 5ul), *end = p;
  for (uint32_t i = 0; i < sample.depth; i++)
    end = put_varint(end, intern_location(sample.functions[i], &sample.locations[i]));
  end_span(&stack_bytes, &stack_spans, p, end);
  return id;
}

static __attribute__((noinline)) uint32_t new_label_set(hash h, slot *found) {
  uint32_t id = table_insert(&label_sets, found, h);
  uint8_t *p = buffer_room(&label_bytes, sample.n_labels * 48ul), *end = p;
  for (uint32_t i = 0; i < sample.n_labels; i++) {
    const label *l = &sample.labels[i];
    uint8_t m[48], *m_end = put_field(m, 1, intern(l->key));
    m_end = put_field(m_end, 2, l->str.len ? intern(l->str) : 0);
    m_end = put_field(m_end, 3, (uint64_t)l->num);
    *end++ = 3 << 3 | 2;
    *end++ = (uint8_t)(m_end - m);
    memcpy(end, m, (size_t)(m_end - m));
    end += m_end - m;
  }
  end_span(&label_bytes, &label_spans, p, end);
  return id;
}

static bare_key key_of(hash stack, hash label_set) {
  slot *s = table_find(&stacks, stack);
  uint32_t stack_id = s->used ? s->value : new_stack(stack, s);
  slot *l = table_find(&label_sets, label_set);
  return (bare_key){stack_id, l->used ? l->value : new_label_set(label_set, l)};
}

/* ---- adding ---- */

static hash hash_of_stack(void) {
  hash h = {1, 2};
  uint64_t odd = 0;
  for (uint32_t i = 0; i < sample.depth; i++) {
    const location *l = &sample.locations[i];
    hash f = kind == BARE_CONTENT ? hash_of_texts(l->name, l->file) : hash_of_pointers(l->name, l->file);
    sample.functions[i] = f;
    h = hash_with(h, f.a ^ (uint64_t)l->line << 32, f.b);
    odd |= l->mapping[0] | l->mapping[1] | l->mapping[2] | l->mapping_file.len | l->build_id.len |
           l->system_name.len | (uint64_t)l->start_line | l->address;
  }
  if (odd) DIE("a location that the bare engine cannot represent");
  return h;
}

static hash hash_of_labels(void) {
  hash h = {3, 4};
  for (uint32_t i = 0; i < sample.n_labels; i++) {
    const label *l = &sample.labels[i];
    hash s = kind == BARE_CONTENT ? hash_of_texts(l->key, l->str) : hash_of_pointers(l->key, l->str);
    h = hash_with(h, s.a ^ (uint64_t)l->num, s.b);
  }
  return h;
}

static void add_timed(bare_key key, int64_t timestamp) {
  bare_timed t = {key, timestamp};
  buffer_append(&timeline, &t, sizeof t);
  uint8_t *p = buffer_room(&timeline, N_VALUES * 10), *end = p;
  for (int i = 0; i < N_VALUES; i++) end = put_varint(end, (uint64_t)sample.values[i]);
  timeline.len += (size_t)(end - p);
}

static void add(int64_t timestamp) {
  hash stack = hash_of_stack(), label_set = hash_of_labels();
  if (timestamp) {
    add_timed(key_of(stack, label_set), timestamp);
    return;
  }
  hash h = hash_with(stack, label_set.a, label_set.b);
  slot *found = table_find(&samples, h);
  if (found->used) {
    int64_t *sum = (int64_t *)(void *)values.p + (size_t)found->value * N_VALUES;
    for (int i = 0; i < N_VALUES; i++) sum[i] += sample.values[i];
    return;
  }
  table_insert(&samples, found, h);
  bare_key key = key_of(stack, label_set);
  buffer_append(&keys, &key, sizeof key);
  buffer_append(&values, sample.values, sizeof sample.values);
}

static uint64_t touch_text(text t) {
  uint64_t sum = t.len;
  size_t i = 0;
  for (; i + 8 <= t.len; i += 8) sum += read_u64(t.ptr + i);
  for (; i < t.len; i++) sum += (uint8_t)t.ptr[i];
  return sum;
}

static void touch(void) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < sample.depth; i++) {
    const location *l = &sample.locations[i];
    sum += touch_text(l->name) + touch_text(l->file) + l->mapping_file.len + l->build_id.len +
           l->system_name.len + (uint64_t)l->line + l->address + l->mapping[0];
  }
  for (uint32_t i = 0; i < sample.n_labels; i++)
    sum +=
        touch_text(sample.labels[i].key) + touch_text(sample.labels[i].str) + (uint64_t)sample.labels[i].num;
  for (int i = 0; i < N_VALUES; i++) sum += (uint64_t)sample.values[i];
  sink += sum;
}

static inline void fill(const workload *w, const addition *a) {
  const stack *s = &w->stacks[a->stack];
  sample.depth = s->depth;
  for (uint32_t i = 0; i < s->depth; i++) {
    const function *f = &w->functions[s->frames[i].function];
    sample.locations[i] = (location){.name = f->name, .file = f->file, .line = s->frames[i].line};
  }
  uint32_t n = 0;
  if (w->spec.heap) {
    sample.labels[n++] = (label){.key = LITERAL("allocation class"), .str = w->classes[a->class_name]};
    sample.labels[n++] = (label){.key = LITERAL("gc gen age"), .num = a->age};
  } else {
    sample.labels[n++] = (label){.key = LITERAL("thread id"), .str = w->thread_ids[a->thread]};
    sample.labels[n++] = (label){.key = LITERAL("thread name"), .str = w->thread_names[a->thread]};
    sample.labels[n++] = (label){.key = LITERAL("local root span id"), .num = a->root_span};
    sample.labels[n++] = (label){.key = LITERAL("span id"), .num = a->span};
    sample.labels[n++] = (label){.key = LITERAL("state"), .str = w->states[a->state]};
  }
  sample.n_labels = n;
  workload_values(w, a, sample.values);
}

/* Not inlined: `valgrind --toggle-collect=bare_add` counts what it and what it calls execute. */
static __attribute__((noinline)) void bare_add(const workload *w, uint32_t from, uint32_t n, bool really) {
  uint32_t at = from % w->spec.period;
  for (uint32_t i = 0; i < n; i++) {
    const addition *a = workload_next(w, &at);
    fill(w, a);
    __asm__ volatile("" ::"r"(&sample), "r"(sample.locations) : "memory");
    if (!really) continue;
    if (kind == BARE_TOUCH)
      touch();
    else
      add(a->timestamp);
  }
}

/* ---- serializing ---- */

static __attribute__((noinline)) text bare_serialize(void) {
  static const char *const types[N_VALUES][2] = {
      {"cpu-time", "nanoseconds"}, {"cpu-samples", "count"},       {"wall-time", "nanoseconds"},
      {"alloc-samples", "count"},  {"heap-live-samples", "count"}, {"heap-live-size", "bytes"},
      {"timeline", "nanoseconds"},
  };
  uint8_t header[N_VALUES * 16], *end = header;
  for (int i = 0; i < N_VALUES; i++) {
    uint8_t m[16], *m_end = m;
    for (uint8_t k = 0; k < 2; k++)
      m_end = put_field(m_end, (uint8_t)(k + 1), intern((text){types[i][k], strlen(types[i][k])}));
    *end++ = 1 << 3 | 2;
    *end++ = (uint8_t)(m_end - m);
    memcpy(end, m, (size_t)(m_end - m));
    end += m_end - m;
  }
  uint32_t time_key = intern(LITERAL("end_timestamp_ns"));
  encode_begin(kind == BARE_POINTER ? ENCODE_ZSTD : ENCODE_LZ4);
  encode_bytes(header, (size_t)(end - header));
  const bare_rows rows = {&stack_bytes, &stack_spans, &label_bytes, &label_spans};
  encode_timeline(&rows, &timeline, time_key);
  encode_aggregated(&rows, &keys, &values);
  encode_bytes(location_bytes.p, location_bytes.len);
  encode_bytes(function_bytes.p, function_bytes.len);
  encode_bytes(string_bytes.p, string_bytes.len);
  return encode_end();
}

static void reset(void) {
  table *const tables[] = {&strings, &functions, &locations, &stacks, &label_sets, &samples};
  buffer *const buffers[] = {&string_bytes, &function_bytes, &location_bytes, &stack_bytes, &label_bytes,
                             &stack_spans,  &label_spans,    &keys,           &values,      &timeline};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) table_deinit(tables[i]);
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) buffer_deinit(buffers[i]);
  intern(LITERAL(""));
}

const engine *bare_open(bare_kind as, const workload *w) {
  static const engine touching = {bare_add, NULL, encode_release, reset};
  static const engine whole = {bare_add, bare_serialize, encode_release, reset};
  kind = as;
  sample.locations = calloc(w->max_depth, sizeof *sample.locations);
  sample.functions = calloc(w->max_depth, sizeof *sample.functions);
  if (!sample.locations || !sample.functions) DIE("out of memory");
  reset();
  return kind == BARE_TOUCH ? &touching : &whole;
}
