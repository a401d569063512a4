#include "exporter/roots.h"

#include "exporter/text.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BYTES = 8000000 }; /* more than that libcurl does not take */

const char *nf_roots_find(void) {
  static const char *const places[] = {"/etc/ssl/certs/ca-certificates.crt",
                                       "/etc/pki/tls/certs/ca-bundle.crt",
                                       "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                       "/etc/ssl/ca-bundle.pem",
                                       "/etc/ssl/cert.pem",
                                       "/usr/share/ssl/certs/ca-bundle.crt"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (access(places[i], R_OK) == 0) return places[i];
  return NULL;
}

/* 0, or an errno. */
static int read_all(int file, nf_buffer *out) {
  struct stat about;
  if (fstat(file, &about) != 0) return errno;
  if (S_ISDIR(about.st_mode)) return EISDIR;
  if (!S_ISREG(about.st_mode)) return EINVAL;
  if (about.st_size > MAX_BYTES) return EFBIG;
  if (!nf_buffer_reserve(out, (size_t)about.st_size + 1)) return ENOMEM;
  for (;;) { /* it may have grown meanwhile */
    ssize_t got = read(file, out->data + out->len, out->capacity - out->len);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return 0;
    out->len += (size_t)got;
    if (out->len > MAX_BYTES) return EFBIG;
    if (out->len == out->capacity && !nf_buffer_reserve(out, out->len)) return ENOMEM;
  }
}

bool nf_roots_read(const char *path, nf_flight *flight, nf_buffer *out, nf_error *error) {
  int file = nf_flight_open(flight, AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
  int number = file < 0 ? errno : read_all(file, out);
  if (file >= 0) nf_flight_close(flight, file);
  if (number == 0) return true;
  if (number == ENOMEM) return nf_error_set_no_memory(error);
  nf_buffer why = {0};
  nf_text_append_errno(&why, number);
  nf_error_set(error, "error trying to connect: the file of CA certificates %s cannot be read: %.*s", path,
               (int)why.len, why.data ? why.data : "");
  nf_buffer_deinit(&why);
  return false;
}
