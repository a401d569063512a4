#include "template_name.h"

#include <stdbool.h>
#include <string.h>

static size_t without_digits(const char *name, size_t length) {
  while (length > 0 && name[length - 1] >= '0' && name[length - 1] <= '9') length--;
  return length;
}

// "__tilt_" id
static size_t tilt_name_length(const char *name, size_t length, const char *file, size_t file_length) {
  static const char prefix[] = "__tilt_";
  size_t prefix_length = sizeof(prefix) - 1;
  bool ruby_file = file_length >= 3 && memcmp(file + file_length - 3, ".rb", 3) == 0;
  if (ruby_file || length <= prefix_length || memcmp(name, prefix, prefix_length) != 0) return length;
  return without_digits(name, length) == prefix_length ? prefix_length - 1 : length;
}

size_t nf_template_name_length(const char *name, size_t length, const char *file, size_t file_length) {
  // "_" path "__" hash "_" id, where the path has "_" for everything but a to z, and so has the sign of the
  // hash.
  size_t tilt = tilt_name_length(name, length, file, file_length);
  if (tilt != length) return tilt;
  size_t end = without_digits(name, length);
  if (end == length || end == 0 || name[end - 1] != '_') return length;
  size_t id_start = end - 1;
  end = without_digits(name, id_start);
  if (end == id_start || end < 4 || name[end - 1] != '_' || name[end - 2] != '_') return length;
  end -= 2;
  if (end > 2 && name[end - 1] == '_') end--; // the sign
  size_t path_length = end - 1;
  if (name[0] != '_' || path_length == 0 || path_length > file_length) return length;
  const char *path = file + file_length - path_length;
  for (size_t i = 0; i < path_length; i++) {
    char expected = (path[i] >= 'a' && path[i] <= 'z') ? path[i] : '_';
    if (name[1 + i] != expected) return length;
  }
  return end;
}
