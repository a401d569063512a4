#include "exporter/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <msgpack/pack.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { NAME_SIZE = sizeof((nf_spool_name *)0)->name, STALE_SECONDS = 3600 };
static const char TEMPORARY_SUFFIX[] = ".tmp";

/* ---- the document ---- */

static int write_packed(void *context, const char *data, size_t len) {
  nf_buffer *out = context;
  nf_buffer_append(out, data, len);
  return out->failed ? -1 : 0;
}

static void pack_string(msgpack_packer *packer, const char *data, size_t len) {
  msgpack_pack_str(packer, len);
  msgpack_pack_str_body(packer, data ? data : "", len);
}

static void pack_text(msgpack_packer *packer, const char *text) { pack_string(packer, text, strlen(text)); }

static void pack_binary(msgpack_packer *packer, const char *data, size_t len) {
  msgpack_pack_bin(packer, len);
  msgpack_pack_bin_body(packer, data ? data : "", len);
}

/* Of the connection, or secret: not for a file. */
static bool keeps(const char *name, size_t len) {
  static const char *const left_out[] = {"dd-api-key", "connection", "host", "transfer-encoding",
                                         "content-type"};
  for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
    if (strlen(left_out[i]) == len && memcmp(left_out[i], name, len) == 0) return false;
  return true;
}

/* Calls pack_string for name and value of each header that is kept; just counts without a packer. */
static size_t pack_headers(const nf_buffer *head, msgpack_packer *packer) {
  size_t count = 0;
  const char *end = head->data + head->len, *line = memchr(head->data, '\n', head->len);
  for (line = line ? line + 1 : end; line < end && *line != '\r';) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    const char *colon = newline ? memchr(line, ':', (size_t)(newline - line)) : NULL;
    if (!colon) break;
    if (keeps(line, (size_t)(colon - line))) {
      count++;
      if (packer) {
        pack_string(packer, line, (size_t)(colon - line));
        pack_string(packer, colon + 2, (size_t)(newline - 1 - (colon + 2)));
      }
    }
    line = newline + 1;
  }
  return count;
}

static bool pack(nf_buffer *out, const nf_request *request) {
  msgpack_packer packer;
  msgpack_packer_init(&packer, out, write_packed);
  nf_buffer_reserve(out, request->body.len + 1024);
  msgpack_pack_map(&packer, 7);
  pack_text(&packer, "format");
  pack_text(&packer, "ddprof-report");
  pack_text(&packer, "version");
  msgpack_pack_int(&packer, 1);
  pack_text(&packer, "path");
  pack_text(&packer, request->endpoint.path ? request->endpoint.path : "");
  pack_text(&packer, "headers");
  msgpack_pack_map(&packer, pack_headers(&request->head, NULL));
  pack_headers(&request->head, &packer);
  pack_text(&packer, "event");
  pack_binary(&packer, request->event.data, request->event.len);
  pack_text(&packer, "files");
  msgpack_pack_array(&packer, request->part_count);
  for (size_t i = 0; i < request->part_count; i++) {
    const struct nf_request_part *part = &request->parts[i];
    msgpack_pack_map(&packer, 3);
    pack_text(&packer, "name");
    pack_string(&packer, request->names.data + part->name, part->name_len);
    pack_text(&packer, "compressed");
    if (part->compressed)
      msgpack_pack_true(&packer);
    else
      msgpack_pack_false(&packer);
    pack_text(&packer, "data");
    pack_binary(&packer, request->body.data + part->data, part->len);
  }
  if (out->failed) return false;
  uint32_t crc = (uint32_t)crc32_z(0, (const Bytef *)out->data, out->len);
  pack_text(&packer, "crc32");
  msgpack_pack_fix_uint32(&packer, crc); /* always five bytes: the end can be found from behind */
  return !out->failed;
}

/* ---- the folder ---- */

static bool failed(nf_error *error, const char *what, const char *folder) {
  nf_buffer why = {0};
  nf_text_append_errno(&why, errno);
  nf_error_set(error, "cannot %s %s: %.*s", what, folder, (int)why.len, why.data ? why.data : "");
  nf_buffer_deinit(&why);
  return false;
}

static int open_folder(const char *folder, nf_flight *flight, bool make, nf_error *error) {
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
  int descriptor = nf_flight_open(flight, AT_FDCWD, folder, flags, 0);
  if (descriptor < 0 && make && errno == ENOENT && (mkdir(folder, 0700) == 0 || errno == EEXIST))
    descriptor = nf_flight_open(flight, AT_FDCWD, folder, flags, 0);
  if (descriptor < 0) failed(error, "open the folder", folder);
  return descriptor;
}

static bool ends_with(const char *name, const char *suffix) {
  size_t len = strlen(name), suffix_len = strlen(suffix);
  return len > suffix_len && strcmp(name + len - suffix_len, suffix) == 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const nf_spool_name *)a)->name, ((const nf_spool_name *)b)->name);
}

/* The reports in the folder; leftovers of writers that were killed are removed on the way. */
static bool list(int folder, nf_flight *flight, nf_spool_names *names) {
  int copy = nf_flight_open(flight, folder, ".", O_RDONLY | O_DIRECTORY, 0);
  DIR *directory = copy < 0 ? NULL : fdopendir(copy);
  if (!directory) {
    if (copy >= 0) nf_flight_close(flight, copy);
    return false;
  }
  nf_buffer all = {0};
  for (struct dirent *found; errno = 0, (found = readdir(directory));) {
    bool report = ends_with(found->d_name, NF_SPOOL_SUFFIX),
         temporary = ends_with(found->d_name, TEMPORARY_SUFFIX);
    struct stat about;
    if ((!report && !temporary) || strlen(found->d_name) >= NAME_SIZE ||
        fstatat(folder, found->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode))
      continue;
    if (temporary) {
      bool ours = strstr(found->d_name, NF_SPOOL_SUFFIX) != NULL;
      if (ours && time(NULL) - about.st_mtime > STALE_SECONDS) unlinkat(folder, found->d_name, 0);
      continue;
    }
    nf_spool_name e = {.size = (uint64_t)about.st_size};
    memcpy(e.name, found->d_name, strlen(found->d_name) + 1);
    nf_buffer_append(&all, &e, sizeof e);
  }
  const int number = all.failed ? ENOMEM : errno;
  nf_fork_guard_enter();
  nf_flight_forget_descriptor(flight, copy);
  closedir(directory);
  nf_fork_guard_leave();
  if (number) {
    nf_buffer_deinit(&all);
    errno = number;
    return false;
  }
  *names = (nf_spool_names){(nf_spool_name *)(void *)all.data, all.len / sizeof(nf_spool_name)};
  if (names->count) qsort(names->items, names->count, sizeof *names->items, by_name);
  return true;
}

static bool make_room(int folder, const char *path, nf_flight *flight, uint64_t needed, uint64_t max_bytes,
                      nf_error *error) {
  if (needed > max_bytes) {
    return nf_error_set(error, "the report (%llu bytes) is larger than what %s may hold (%llu bytes)",
                        (unsigned long long)needed, path, (unsigned long long)max_bytes);
  }
  nf_spool_names names;
  if (!list(folder, flight, &names)) return failed(error, "read the folder", path);
  uint64_t total = needed;
  for (size_t i = 0; i < names.count; i++) total += names.items[i].size;
  if (total > max_bytes) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said))
      fprintf(stderr, "profiling: %s is full (%llu bytes): the oldest reports are removed\n", path,
              (unsigned long long)max_bytes);
    for (size_t i = 0; i < names.count && total > max_bytes; i++)
      if (unlinkat(folder, names.items[i].name, 0) == 0 || errno == ENOENT) total -= names.items[i].size;
  }
  free(names.items);
  return total <= max_bytes || failed(error, "remove old reports from", path);
}

static bool write_whole(int file, const char *data, size_t len) {
  for (size_t at = 0; at < len;) {
    ssize_t written = write(file, data + at, len - at);
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) at += (size_t)written;
  }
  return true;
}

/* Names sort by time; pid and boundary keep those of one moment apart. */
static void make_name(char name[NAME_SIZE], const nf_request *request) {
  struct timespec t;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &t);
  gmtime_r(&t.tv_sec, &utc);
  snprintf(name, NAME_SIZE, "%04d%02d%02dT%02d%02d%02d.%09ld-%d-%.12s" NF_SPOOL_SUFFIX, utc.tm_year + 1900,
           utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, t.tv_nsec, (int)getpid(),
           request->boundary);
}

static bool write_file(int folder, const char *path, nf_flight *flight, const nf_request *request,
                       const nf_buffer *document, nf_error *error) {
  char name[NAME_SIZE], temporary[NAME_SIZE + sizeof TEMPORARY_SUFFIX];
  make_name(name, request);
  snprintf(temporary, sizeof temporary, "%s%s", name, TEMPORARY_SUFFIX);
  struct rlimit most; /* beyond it, writing would raise SIGXFSZ */
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
      document->len > most.rlim_cur) {
    errno = EFBIG;
    return failed(error, "write into", path);
  }
  int file = nf_flight_open(flight, folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (file < 0) return failed(error, "write into", path);
  bool ok = fchmod(file, 0600) == 0 && write_whole(file, document->data, document->len) && fsync(file) == 0;
  int number = errno;
  if (nf_flight_close(flight, file) != 0 && ok) ok = false, number = errno;
  if (ok && renameat(folder, temporary, folder, name) != 0) ok = false, number = errno;
  if (!ok) {
    unlinkat(folder, temporary, 0);
    errno = number;
    return failed(error, "write into", path);
  }
  fsync(folder); /* the name too; some file systems cannot, and the report is there all the same */
  return true;
}

bool nf_spool_write_limited(const char *folder, const nf_request *request, nf_flight *flight,
                            uint64_t max_bytes, nf_error *error) {
  int descriptor = open_folder(folder, flight, true, error);
  if (descriptor < 0) return false;
  nf_buffer document = {0};
  bool ok = pack(&document, request) || nf_error_set_no_memory(error);
  ok = ok && make_room(descriptor, folder, flight, document.len, max_bytes, error) &&
       write_file(descriptor, folder, flight, request, &document, error);
  nf_buffer_deinit(&document);
  nf_flight_close(flight, descriptor);
  return ok;
}

bool nf_spool_write(const char *folder, const nf_request *request, nf_flight *flight, unsigned *status,
                    nf_error *error) {
  if (!nf_spool_write_limited(folder, request, flight, NF_SPOOL_MAX_BYTES, error)) return false;
  *status = 200;
  return true;
}

int nf_spool_open(const char *folder, nf_flight *flight, nf_spool_names *names, nf_error *error) {
  int descriptor = open_folder(folder, flight, false, error);
  if (descriptor < 0 || list(descriptor, flight, names)) return descriptor;
  failed(error, "read the folder", folder);
  nf_flight_close(flight, descriptor);
  return -1;
}
