/* From a profile to compressed pprof.
 *
 * protobuf-c owns the messages. Where there are thousands of one kind (samples, locations, functions,
 * strings) a writer of ours stands in for its generic packer, and gives the same bytes
 * (tests/unit/core/serialize_test.cc compares them); everything else is packed by protobuf-c, as a Profile that
 * has only those fields: pprof's concatenation is a merge. */
#include "core/alloc.h"
#include "core/profile.h"
#include "core/window.h"
#include "proto/profile.pb-c.h"

enum { /* field numbers */
       PROFILE_SAMPLE = 2,
       PROFILE_LOCATION = 4,
       PROFILE_FUNCTION = 5,
       PROFILE_STRING_TABLE = 6,
       SAMPLE_LOCATION_ID = 1,
       SAMPLE_VALUE = 2,
       SAMPLE_LABEL = 3,
       LABEL_KEY = 1,
       LABEL_STR = 2,
       LABEL_NUM = 3,
       LABEL_NUM_UNIT = 4,
       LOCATION_ID = 1,
       LOCATION_MAPPING_ID = 2,
       LOCATION_ADDRESS = 3,
       LOCATION_LINE = 4,
       LINE_FUNCTION_ID = 1,
       LINE_LINE = 2,
       FUNCTION_ID = 1,
       FUNCTION_NAME = 2,
       FUNCTION_SYSTEM_NAME = 3,
       FUNCTION_FILENAME = 4,
       FUNCTION_START_LINE = 5,
};

#define LABEL_BYTES_MOST 40

/* Label sets come back soon after they were used: the last ones are kept as they are encoded. */
enum { KEPT_SETS_MOST = 512, KEPT_BYTES = 248 };

typedef struct kept_set {
  uint32_t id; /* + 1; 0: none */
  uint32_t len;
  uint8_t bytes[KEPT_BYTES];
} kept_set;

typedef struct encoder {
  nf_profile *profile;
  nf_store *store;
  nf_window window;
  bool consume; /* nothing can fail any more: memory is given back as soon as it was encoded */
  int64_t *values;
  uint8_t *value_bytes; /* values as varints */
  uint8_t *label_bytes; /* label sets too large to be kept */
  kept_set *kept;
  uint32_t n_kept;
} encoder;

/* ---- labels ---- */

static uint8_t *put_label(uint8_t *out, uint32_t key, uint32_t str, int64_t num, uint32_t unit) {
  uint8_t *message = out + 2, *end = message; /* shorter than 128 bytes, so its length is one */
  end = nf_put_field32(end, LABEL_KEY, key);
  end = nf_put_field32(end, LABEL_STR, str);
  end = nf_put_field(end, LABEL_NUM, (uint64_t)num);
  end = nf_put_field32(end, LABEL_NUM_UNIT, unit);
  out[0] = NF_TAG_BYTES(SAMPLE_LABEL);
  out[1] = (uint8_t)(end - message);
  return end;
}

/* A walk through the labels of a set. */
typedef struct set_walk {
  const nf_store *store;
  const uint8_t *next, *end;
  uint32_t endpoint; /* that the labels so far imply, or NF_ID_NONE */
} set_walk;

static set_walk walk_set(const nf_store *store, uint32_t set) {
  nf_bytes ids = nf_bytes_table_get(&store->labels.sets, set);
  return (set_walk){store, ids.ptr, ids.ptr + ids.len, NF_ID_NONE};
}

/* NULL at the end. */
static const nf_label_row *next_label(set_walk *walk) {
  if (walk->next == walk->end) return NULL;
  uint32_t id;
  walk->next = nf_varint_get32(walk->next, &id);
  const nf_label_row *row = nf_labels_get(&walk->store->labels, id);
  if (walk->endpoint == NF_ID_NONE && row->key == (NF_STRING_LOCAL_ROOT_SPAN_ID | NF_LABEL_NUMERIC))
    walk->endpoint = nf_endpoints_get(&walk->store->endpoints, (uint64_t)row->num);
  return row;
}

/* The labels of a set, and the endpoint that they imply. */
static uint8_t *put_label_set(const nf_store *store, uint32_t set, uint8_t *out) {
  set_walk walk = walk_set(store, set);
  for (const nf_label_row *row; (row = next_label(&walk));)
    if (row->key & NF_LABEL_NUMERIC)
      out = put_label(out, nf_label_key(row), 0, row->num, row->text);
    else
      out = put_label(out, row->key, row->text, 0, 0);
  if (walk.endpoint != NF_ID_NONE) out = put_label(out, NF_STRING_TRACE_ENDPOINT, walk.endpoint, 0, 0);
  return out;
}

static nf_bytes encoded_label_set(encoder *e, uint32_t set) {
  kept_set *kept = &e->kept[set % e->n_kept];
  if (kept->id == set + 1) return (nf_bytes){kept->bytes, kept->len};
  uint8_t *end = put_label_set(e->store, set, e->label_bytes);
  size_t len = (size_t)(end - e->label_bytes);
  if (len > KEPT_BYTES) return (nf_bytes){e->label_bytes, len};
  memcpy(kept->bytes, e->label_bytes, len);
  kept->id = set + 1;
  kept->len = (uint32_t)len;
  return (nf_bytes){kept->bytes, len};
}

/* ---- samples ---- */

static void upscale(encoder *e, uint32_t set, bool has_timestamp) {
  const nf_store *store = e->store;
  set_walk walk = walk_set(store, set);
  for (const nf_label_row *row; (row = next_label(&walk));) {
    uint32_t key = nf_label_key(row), text = row->key & NF_LABEL_NUMERIC ? 0 : row->text;
    if (key || text) nf_upscaling_apply(&store->upscaling, key, text, e->values);
  }
  if (walk.endpoint != NF_ID_NONE)
    nf_upscaling_apply(&store->upscaling, NF_STRING_TRACE_ENDPOINT, walk.endpoint, e->values);
  if (has_timestamp) nf_upscaling_apply(&store->upscaling, NF_STRING_END_TIMESTAMP_NS, 0, e->values);
  nf_upscaling_apply(&store->upscaling, 0, 0, e->values);
}

/* One of the pieces of a sample that is too large for a record of the window. */
static void put_large(nf_window *window, const uint8_t *head, const uint8_t *head_end, const uint8_t *bytes,
                      size_t len) {
  nf_window_put(window, head, (size_t)(head_end - head));
  nf_window_put(window, bytes, len);
}

/* Of e->values, upscaled. */
static size_t encode_values(encoder *e, uint32_t set, bool has_timestamp) {
  if (!nf_upscaling_empty(&e->store->upscaling)) upscale(e, set, has_timestamp);
  uint8_t *end = e->value_bytes;
  for (uint32_t i = 0; i < e->profile->n_types; i++) end = nf_varint_put(end, (uint64_t)e->values[i]);
  return (size_t)(end - e->value_bytes);
}

/* The values are in e->value_bytes. */
static void put_sample(encoder *e, uint32_t stack_id, uint32_t set, size_t values_len, int64_t timestamp) {
  nf_bytes stack = nf_bytes_table_get(&e->store->stacks, stack_id);
  nf_bytes labels = encoded_label_set(e, set);
  uint8_t time_bytes[LABEL_BYTES_MOST];
  size_t time_len = 0;
  if (timestamp)
    time_len = (size_t)(put_label(time_bytes, NF_STRING_END_TIMESTAMP_NS, 0, timestamp, 0) - time_bytes);

  size_t len = labels.len + time_len;
  if (stack.len) len += 1 + nf_varint_size(stack.len) + stack.len;
  if (values_len) len += 1 + nf_varint_size(values_len) + values_len;
  nf_window *window = &e->window;
  window->codec->parts_done++;
  if (len > NF_WINDOW_RECORD_MOST - 16) {
    uint8_t head[16];
    head[0] = NF_TAG_BYTES(PROFILE_SAMPLE);
    put_large(window, head, nf_varint_put(head + 1, len), NULL, 0);
    head[0] = NF_TAG_BYTES(SAMPLE_LOCATION_ID);
    if (stack.len) put_large(window, head, nf_varint_put(head + 1, stack.len), stack.ptr, stack.len);
    head[0] = NF_TAG_BYTES(SAMPLE_VALUE);
    if (values_len) put_large(window, head, nf_varint_put(head + 1, values_len), e->value_bytes, values_len);
    nf_window_put(window, labels.ptr, labels.len);
    nf_window_put(window, time_bytes, time_len);
    return;
  }
  uint8_t *out = nf_window_open(window);
  *out++ = NF_TAG_BYTES(PROFILE_SAMPLE);
  out = nf_varint_put32(out, (uint32_t)len);
  if (stack.len) {
    *out++ = NF_TAG_BYTES(SAMPLE_LOCATION_ID);
    out = nf_varint_put32(out, (uint32_t)stack.len);
    memcpy(out, stack.ptr, stack.len);
    out += stack.len;
  }
  if (values_len) {
    *out++ = NF_TAG_BYTES(SAMPLE_VALUE);
    out = nf_varint_put32(out, (uint32_t)values_len);
    memcpy(out, e->value_bytes, values_len);
    out += values_len;
  }
  memcpy(out, labels.ptr, labels.len);
  out += labels.len;
  memcpy(out, time_bytes, time_len);
  nf_window_close(window, out + time_len);
}

/* How much is encoded before the memory behind it is given back. */
#define DISCARD_STEP ((size_t)256 << 10)

static void put_timeline(encoder *e) {
  nf_timeline *timeline = &e->store->timeline;
  nf_timeline_reader reader = nf_timeline_read(timeline);
  size_t discarded = 0;
  while (nf_timeline_next(&reader, e->values)) {
    size_t values_len = encode_values(e, reader.labels, true);
    put_sample(e, reader.stack, reader.labels, values_len, reader.timestamp);
    size_t done = (size_t)(reader.next - timeline->records.data);
    if (e->consume && done - discarded >= DISCARD_STEP) {
      nf_pages_discard(timeline->records.data, timeline->records.capacity, discarded, DISCARD_STEP);
      discarded += DISCARD_STEP;
    }
  }
  if (e->consume) nf_timeline_deinit(timeline, &e->store->account);
}

/* With this LZ4 needs an eighth less time for typical samples without a time, and finds as much (a fortieth
 * less in deep stacks and live objects); in what else there is, it would miss too much. */
enum { SAMPLES_HASTE = 2 };

static void put_aggregated(encoder *e) {
  nf_samples *samples = &e->store->samples;
  uint32_t count = nf_samples_count(samples);
  bool as_they_are = nf_upscaling_empty(&e->store->upscaling);
  for (uint32_t id = 0; id < count; id++) {
    const nf_sample_row *row = NF_ROWS(samples->rows, nf_sample_row) + id;
    size_t values_len;
    if (as_they_are)
      values_len = (size_t)(nf_samples_put_values(samples, row, e->value_bytes) - e->value_bytes);
    else {
      nf_samples_values(samples, row, e->values);
      values_len = encode_values(e, row->labels, false);
    }
    put_sample(e, row->stack, row->labels, values_len, 0);
  }
  if (e->consume) nf_samples_deinit(samples, &e->store->account);
}

/* ---- names and places ---- */

static void put_locations(encoder *e) {
  uint32_t count = nf_locations_count(&e->store->locations);
  for (uint32_t id = 1; id <= count; id++) {
    nf_location_view view = nf_locations_get(&e->store->locations, id);
    uint8_t *out = nf_window_open(&e->window), *message = out + 2, *end = message;
    end = nf_put_field32(end, LOCATION_ID, id);
    end = nf_put_field32(end, LOCATION_MAPPING_ID, view.mapping);
    end = nf_put_field(end, LOCATION_ADDRESS, view.address);
    *end++ = NF_TAG_BYTES(LOCATION_LINE);
    uint8_t *line_len = end++, *line = end;
    end = nf_put_field32(end, LINE_FUNCTION_ID, view.function);
    end = nf_put_field(end, LINE_LINE, (uint64_t)view.line);
    *line_len = (uint8_t)(end - line);
    out[0] = NF_TAG_BYTES(PROFILE_LOCATION);
    out[1] = (uint8_t)(end - message);
    nf_window_close(&e->window, end);
  }
}

static void put_functions(encoder *e) {
  const nf_array *functions = &e->store->locations.functions;
  uint32_t count = (uint32_t)NF_ROW_COUNT(*functions, nf_function_row);
  for (uint32_t id = 1; id <= count; id++) {
    const nf_function_row *row = NF_ROWS(*functions, nf_function_row) + (id - 1);
    uint8_t *out = nf_window_open(&e->window), *message = out + 2, *end = message;
    end = nf_put_field32(end, FUNCTION_ID, id);
    end = nf_put_field32(end, FUNCTION_NAME, row->name);
    end = nf_put_field32(end, FUNCTION_SYSTEM_NAME, row->system_name);
    end = nf_put_field32(end, FUNCTION_FILENAME, row->filename);
    end = nf_put_field(end, FUNCTION_START_LINE, (uint64_t)nf_function_start_line(row));
    out[0] = NF_TAG_BYTES(PROFILE_FUNCTION);
    out[1] = (uint8_t)(end - message);
    nf_window_close(&e->window, end);
  }
}

/* protobuf-c takes C strings, which cannot hold the NULs that ours may. */
static void put_strings(encoder *e) {
  const nf_bytes_table *strings = &e->store->strings;
  uint32_t count = nf_bytes_table_count(strings);
  for (uint32_t id = 0; id < count; id++) {
    nf_bytes s = nf_bytes_table_get(strings, id);
    uint8_t *out = nf_window_open(&e->window);
    *out++ = NF_TAG_BYTES(PROFILE_STRING_TABLE);
    nf_window_close(&e->window, nf_varint_put(out, s.len));
    nf_window_put(&e->window, s.ptr, s.len);
  }
}

/* ---- what protobuf-c packs ---- */

static void put_partial(encoder *e, const Pprof__Profile *partial) {
  nf_window_close(&e->window,
                  nf_window_open(&e->window) + pprof__profile__pack(partial, nf_window_open(&e->window)));
}

static Pprof__ValueType value_type(const nf_value_type_ids *ids) {
  Pprof__ValueType message = PPROF__VALUE_TYPE__INIT;
  message.type = ids->type;
  message.unit = ids->unit;
  return message;
}

static void put_sample_types(encoder *e) {
  for (uint32_t i = 0; i < e->profile->n_types; i++) {
    Pprof__ValueType type = value_type(&e->profile->types[i]), *types = &type;
    Pprof__Profile partial = PPROF__PROFILE__INIT;
    partial.n_sample_type = 1;
    partial.sample_type = &types;
    put_partial(e, &partial);
  }
}

static void put_mappings(encoder *e) {
  const nf_array *rows = &e->store->locations.mappings;
  for (size_t i = 0; i < NF_ROW_COUNT(*rows, nf_mapping_row); i++) {
    const nf_mapping_row *row = NF_ROWS(*rows, nf_mapping_row) + i;
    Pprof__Mapping mapping = PPROF__MAPPING__INIT, *mappings = &mapping;
    mapping.id = i + 1;
    mapping.memory_start = row->memory_start;
    mapping.memory_limit = row->memory_limit;
    mapping.file_offset = row->file_offset;
    mapping.filename = row->filename;
    mapping.build_id = row->build_id;
    Pprof__Profile partial = PPROF__PROFILE__INIT;
    partial.n_mapping = 1;
    partial.mapping = &mappings;
    put_partial(e, &partial);
  }
}

/* 0 if there are none, INT64_MAX if there are more. */
static int64_t nanoseconds_between(nf_moment from, nf_moment to) {
  const uint64_t second = 1000000000;
  const bool borrow = to.nanoseconds < from.nanoseconds;
  if (to.seconds < from.seconds || (to.seconds == from.seconds && borrow)) return 0;
  uint64_t seconds = (uint64_t)to.seconds - (uint64_t)from.seconds - borrow;
  if (seconds > INT64_MAX / second) return INT64_MAX;
  uint64_t all = seconds * second + (borrow ? second : 0) + to.nanoseconds - from.nanoseconds;
  return all > INT64_MAX ? INT64_MAX : (int64_t)all;
}

static void put_times(encoder *e, nf_moment end, int64_t duration) {
  const nf_profile *profile = e->profile;
  Pprof__ValueType period_type = value_type(&profile->period_type);
  Pprof__Profile partial = PPROF__PROFILE__INIT;
  partial.time_nanos = nanoseconds_between((nf_moment){0, 0}, profile->start);
  partial.duration_nanos = duration >= 0 ? duration : nanoseconds_between(profile->start, end);
  if (profile->has_period) {
    partial.period_type = &period_type;
    partial.period = profile->period;
  }
  put_partial(e, &partial);
}

/* ---- all of it ---- */

/* What the output can be at most, uncompressed. */
static uint64_t bound(const nf_profile *profile) {
  const nf_store *store = &profile->store;
  return 1024 + store->encoded_bound + 64 * (uint64_t)profile->n_types +
         64 * (uint64_t)NF_ROW_COUNT(store->locations.mappings, nf_mapping_row) +
         64 * (uint64_t)nf_locations_count(&store->locations) +
         64 * (uint64_t)NF_ROW_COUNT(store->locations.functions, nf_function_row) +
         8 * (uint64_t)nf_bytes_table_count(&store->strings) + store->strings.bytes.used;
}

static void encoder_deinit(encoder *e) {
  nf_window_deinit(&e->window);
  nf_free(e->values);
  nf_free(e->value_bytes);
  nf_pages_free(e->label_bytes, (e->store->most_labels + 2) * LABEL_BYTES_MOST);
  nf_free(e->kept);
}

static bool encoder_init(encoder *e, nf_profile *profile, nf_codec *codec, nf_error *error) {
  *e = (encoder){.profile = profile, .store = &profile->store};
  e->values = nf_alloc(profile->n_types * sizeof *e->values);
  e->value_bytes = nf_alloc((size_t)profile->n_types * NF_VARINT_MAX);
  e->label_bytes = nf_pages_alloc((profile->store.most_labels + 2) * LABEL_BYTES_MOST);
  uint32_t sets = nf_bytes_table_count(&profile->store.labels.sets);
  e->n_kept = sets == 0 ? 1 : sets < KEPT_SETS_MOST ? sets : KEPT_SETS_MOST;
  e->kept = nf_alloc_zeroed(e->n_kept * sizeof *e->kept);
  bool ok = nf_window_init(&e->window, codec, bound(profile), error);
  if (ok && e->values && e->value_bytes && e->label_bytes && e->kept) return true;
  encoder_deinit(e);
  return nf_error_set_no_memory(error);
}

static void drop_indexes(nf_store *store) {
  nf_account *account = &store->account;
  nf_bytes_table_drop_index(&store->strings, account);
  nf_bytes_table_drop_index(&store->stacks, account);
  nf_locations_drop_indexes(&store->locations, account);
  nf_labels_drop_indexes(&store->labels, account);
  nf_samples_drop_index(&store->samples, account);
}

static void encode(encoder *e, nf_moment end, int64_t duration) {
  nf_store *store = e->store;
  nf_codec *codec = e->window.codec;
  if (e->consume) drop_indexes(store);
  codec->parts = store->timeline.count + nf_samples_count(&store->samples); /* names are little beside them */
  put_timeline(e);
  codec->haste = SAMPLES_HASTE;
  put_aggregated(e);
  codec->haste = 1;
  if (e->consume) {
    nf_bytes_table_deinit(&store->stacks, &store->account);
    nf_labels_deinit(&store->labels, &store->account);
  }
  put_sample_types(e);
  put_mappings(e);
  put_locations(e);
  put_functions(e);
  put_strings(e);
  put_times(e, end, duration);
  nf_window_flush(&e->window);
}

bool nf_profile_encode(nf_profile *profile, nf_moment end, int64_t duration, nf_moment next_start,
                       nf_codec_kind kind, nf_encoded *encoded, nf_error *error) {
  nf_store fresh;
  nf_codec codec;
  encoder e;
  bool reserved;
  if (!nf_store_init(&fresh, profile, profile->store.account.budget)) return nf_error_set_no_memory(error);
  if (!nf_codec_begin(&codec, kind, bound(profile), &reserved, error)) {
    nf_store_deinit(&fresh);
    return false;
  }
  if (!encoder_init(&e, profile, &codec, error)) {
    nf_codec_drop(&codec);
    nf_store_deinit(&fresh);
    return false;
  }
  e.consume = reserved;
  encode(&e, end, duration);
  bool ok = !e.window.failed;
  if (ok)
    ok = nf_codec_end(&codec, &encoded->bytes, error);
  else
    nf_codec_drop(&codec);
  encoder_deinit(&e);
  if (!ok && !reserved) {
    nf_store_deinit(&fresh);
    return false;
  }
  if (ok) {
    encoded->start = profile->start;
    encoded->end = end;
    encoded->endpoint_stats = profile->store.endpoint_stats;
    profile->store.endpoint_stats = NULL;
  }
  nf_store_deinit(&profile->store);
  profile->store = fresh;
  profile->start = next_start;
  return ok;
}
