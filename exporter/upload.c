#include "exporter/upload.h"

#include "exporter/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Part of this library (see BUILD), so as hidden as the rest of it. */
#pragma GCC visibility push(hidden)
#include <msgpack/object.h>
#include <msgpack/unpack.h>
#include <msgpack/zone.h>
#pragma GCC visibility pop

static const char TRAILER[] = "\xA5"
                              "crc32"
                              "\xCE"; /* then four bytes */
enum { TRAILER_SIZE = sizeof TRAILER - 1 + 4 };

/* ---- the document ---- */

static bool is(const msgpack_object *o, const char *text) {
  return o->type == MSGPACK_OBJECT_STR && o->via.str.size == strlen(text) &&
         memcmp(o->via.str.ptr, text, o->via.str.size) == 0;
}

static const msgpack_object *find(const msgpack_object *map, const char *key, msgpack_object_type type) {
  for (uint32_t i = 0; map && map->type == MSGPACK_OBJECT_MAP && i < map->via.map.size; i++)
    if (is(&map->via.map.ptr[i].key, key))
      return map->via.map.ptr[i].val.type == type ? &map->via.map.ptr[i].val : NULL;
  return NULL;
}

static nf_text text_in(const msgpack_object *map, const char *key) {
  const msgpack_object *o = find(map, key, MSGPACK_OBJECT_STR);
  return o ? (nf_text){o->via.str.ptr, o->via.str.size} : (nf_text){0};
}

static bool check_sum(const nf_buffer *document) {
  if (document->len <= TRAILER_SIZE) return false;
  size_t covered = document->len - TRAILER_SIZE;
  const unsigned char *end = (const unsigned char *)document->data + covered;
  if (memcmp(end, TRAILER, TRAILER_SIZE - 4) != 0) return false;
  const unsigned char *sum = end + TRAILER_SIZE - 4;
  uint32_t stored = (uint32_t)sum[0] << 24 | (uint32_t)sum[1] << 16 | (uint32_t)sum[2] << 8 | sum[3];
  return crc32_z(0, (const Bytef *)document->data, covered) == stored;
}

/* Views into the document; the caller frees *files. */
static bool read_report(const msgpack_object *document, nf_stored_report *report, nf_file **files) {
  const msgpack_object *version = find(document, "version", MSGPACK_OBJECT_POSITIVE_INTEGER);
  const msgpack_object *format = find(document, "format", MSGPACK_OBJECT_STR);
  const msgpack_object *event = find(document, "event", MSGPACK_OBJECT_BIN);
  const msgpack_object *list = find(document, "files", MSGPACK_OBJECT_ARRAY);
  const msgpack_object *headers = find(document, "headers", MSGPACK_OBJECT_MAP);
  if (!version || version->via.u64 != 1 || !format || !is(format, "ddprof-report") || !event || !list ||
      !headers)
    return false;
  report->user_agent = text_in(headers, "user-agent");
  report->container_id = text_in(headers, "datadog-container-id");
  report->library_name = text_in(headers, "dd-evp-origin");
  report->library_version = text_in(headers, "dd-evp-origin-version");
  report->event = (nf_text){event->via.bin.ptr, event->via.bin.size};
  report->file_count = list->via.array.size;
  *files = calloc(report->file_count ? report->file_count : 1, sizeof **files);
  if (!*files) return false;
  for (size_t i = 0; i < report->file_count; i++) {
    const msgpack_object *data = find(&list->via.array.ptr[i], "data", MSGPACK_OBJECT_BIN);
    if (!data) return false;
    (*files)[i] = (nf_file){.name = text_in(&list->via.array.ptr[i], "name"),
                            .data = (const uint8_t *)data->via.bin.ptr,
                            .len = data->via.bin.size};
  }
  report->files = *files;
  return true;
}

/* What an item of MessagePack consists of, by its first byte: `size_bytes` that hold a length, which
 * counts bytes or (of arrays and maps) items; `fixed` bytes otherwise. */
typedef struct shape {
  unsigned size_bytes, fixed, items_per_entry;
  uint64_t entries;
} shape;

static bool shape_of(unsigned char type, shape *s) {
  *s = (shape){0};
  if (type <= 0x7F || type >= 0xE0 || type == 0xC0 || type == 0xC2 || type == 0xC3)
    return true; /* all in one */
  if (type <= 0x8F)
    s->items_per_entry = 2, s->entries = type & 0xF;
  else if (type <= 0x9F)
    s->items_per_entry = 1, s->entries = type & 0xF;
  else if (type <= 0xBF)
    s->fixed = type & 0x1F;
  else if (type >= 0xC4 && type <= 0xC6)
    s->size_bytes = 1u << (type - 0xC4);
  else if (type == 0xCA || type == 0xCB)
    s->fixed = type == 0xCA ? 4 : 8;
  else if (type >= 0xCC && type <= 0xD3)
    s->fixed = 1u << (type & 3);
  else if (type >= 0xD9 && type <= 0xDB)
    s->size_bytes = 1u << (type - 0xD9);
  else if (type >= 0xDC)
    s->size_bytes = type & 1 ? 4 : 2, s->items_per_entry = type >= 0xDE ? 2 : 1;
  else
    return false; /* extensions: not in a report */
  return true;
}

/* Whether one item fills the document, and no length in it claims more than there is: msgpack-c would ask
 * for memory for whatever an array claims. */
static bool plausible(const nf_buffer *document) {
  const unsigned char *p = (const unsigned char *)document->data, *end = p + document->len;
  for (uint64_t pending = 1; pending > 0; pending--) {
    shape s;
    if (p == end || !shape_of(*p++, &s)) return false;
    uint64_t length = s.fixed;
    if (s.size_bytes) {
      if ((size_t)(end - p) < s.size_bytes) return false;
      for (length = 0; s.size_bytes; s.size_bytes--) length = length << 8 | *p++;
      if (s.items_per_entry) s.entries = length, length = 0;
    }
    size_t left = (size_t)(end - p);
    if (length > left || s.entries * s.items_per_entry > left) return false;
    p += length;
    pending += s.entries * s.items_per_entry;
    if (pending > left + 1) return false;
  }
  return p == end;
}

/* NULL: this is no whole report, or there was no memory for it. */
static nf_request *to_request(const nf_buffer *document, const nf_exporter *exporter, uint64_t timeout_ms,
                              bool *no_memory) {
  if (!check_sum(document) || !plausible(document)) return NULL;
  msgpack_unpacked unpacked;
  msgpack_unpacked_init(&unpacked);
  size_t end = 0;
  nf_stored_report report = {.timeout_ms = timeout_ms};
  nf_file *files = NULL;
  nf_request *request = NULL;
  nf_error why = {0};
  msgpack_unpack_return read = msgpack_unpack_next(&unpacked, document->data, document->len, &end);
  if (read == MSGPACK_UNPACK_SUCCESS && end == document->len &&
      read_report(&unpacked.data, &report, &files)) {
    request = nf_request_rebuild(exporter, &report, &why);
    *no_memory = !request && !why.text;
  } else {
    *no_memory = read == MSGPACK_UNPACK_NOMEM_ERROR;
  }
  nf_error_deinit(&why);
  free(files);
  msgpack_unpacked_destroy(&unpacked);
  return request;
}

/* ---- the folder ---- */

static bool read_whole(int file, nf_buffer *out) {
  struct stat about;
  if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || (uint64_t)about.st_size > NF_SPOOL_MAX_BYTES)
    return false;
  enum { CHUNK = 65536 };
  nf_buffer_reserve(out, (size_t)about.st_size + CHUNK);
  while (out->len <= NF_SPOOL_MAX_BYTES && nf_buffer_reserve(out, CHUNK)) {
    ssize_t got = read(file, out->data + out->len, CHUNK);
    if (got == 0) return true;
    if (got < 0 && errno != EINTR) return false;
    if (got > 0) out->len += (size_t)got;
  }
  return false;
}

typedef struct upload {
  nf_flight *flight;
  int folder;
  const nf_exporter *exporter;
  uint64_t timeout_ms;
  nf_token *token;
  nf_upload_observer *observer;
  void *context;
  nf_upload_counts *counts;
  nf_error *error;
} upload;

static void tell(const upload *u, const char *name, const char *outcome) {
  if (u->observer) u->observer(u->context, name, outcome);
}

/* False: it makes no sense to go on. */
static bool send_file(upload *u, const char *name) {
  int file = nf_flight_open(u->flight, u->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  if (file < 0 && errno == ENOENT) return true; /* another uploader was faster */
  nf_buffer document = {0};
  bool whole = file >= 0 && read_whole(file, &document);
  if (file >= 0) nf_flight_close(u->flight, file);
  bool no_memory = document.failed;
  nf_request *request = whole ? to_request(&document, u->exporter, u->timeout_ms, &no_memory) : NULL;
  nf_buffer_deinit(&document);
  if (!request) {
    if (no_memory) return nf_error_set_no_memory(u->error);
    u->counts->damaged++;
    tell(u, name, "damaged");
    return true;
  }
  unsigned status;
  if (!nf_exporter_send(request, u->token, &status, u->error)) return false;
  char outcome[32];
  snprintf(outcome, sizeof outcome, "status %u", status);
  if (status >= 200 && status < 300) {
    unlinkat(u->folder, name, 0);
    u->counts->accepted++;
  } else {
    u->counts->rejected++;
    u->counts->last_rejection = status;
  }
  tell(u, name, outcome);
  return true;
}

/* In the child of a fork. */
static void abandon(nf_flight *flight) { free(flight); }

static nf_flight *begin_flight(void) {
  nf_flight *flight = nf_fork_guard_prepare() ? calloc(1, sizeof *flight) : NULL;
  if (!flight) return NULL;
  flight->abandon = abandon;
  nf_fork_guard_enter();
  nf_flight_begin(flight);
  nf_fork_guard_leave();
  return flight;
}

static void end_flight(nf_flight *flight) {
  nf_fork_guard_enter();
  nf_flight_end(flight);
  nf_fork_guard_leave();
  free(flight);
}

bool nf_upload_folder(const char *folder, const nf_exporter *exporter, uint64_t timeout_ms, nf_token *token,
                      nf_upload_observer *observer, void *context, nf_upload_counts *counts,
                      nf_error *error) {
  *counts = (nf_upload_counts){0};
  nf_spool_names names = {0};
  upload u = {.flight = begin_flight(),
              .exporter = exporter,
              .timeout_ms = timeout_ms,
              .token = token,
              .observer = observer,
              .context = context,
              .counts = counts,
              .error = error};
  if (!u.flight) return nf_error_set_no_memory(error);
  u.folder = nf_spool_open(folder, u.flight, &names, error);
  bool ok = u.folder >= 0;
  size_t i = 0;
  for (; i < names.count && ok; i++) ok = send_file(&u, names.items[i].name);
  counts->left = ok ? 0 : names.count - i + (i > 0);
  free(names.items);
  if (u.folder >= 0) nf_flight_close(u.flight, u.folder);
  end_flight(u.flight);
  return ok;
}
