#define _GNU_SOURCE
#include "exporter/env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
  CHUNK = 256,
  HEAD = 64,
  BATCH = 32,
  PAGE = 4096,
  MAX_VARIABLES = 65536,
  MAX_VALUE = 1 << 17,
  PAUSES = 7,
  PASSES = 2
};

/* A digest of what looked odd in an environment and has proved to stay so: this is not waited for again. */
static _Atomic uint32_t known_oddities;

extern char **environ;

typedef enum outcome { READ, CHANGED, NO_MEMORY } outcome;

/* Where process_vm_readv is forbidden, a pipe serves: write() checks its buffer just the same. */
static ssize_t read_through_pipe(void *to, const void *from, size_t len) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return -1;
  ssize_t got = write(ends[1], from, len);
  if (got > 0) got = read(ends[0], to, (size_t)got);
  close(ends[0]);
  close(ends[1]);
  return got;
}

/* Copies up to `len` bytes (at most CHUNK), not past the end of the page; the number copied, or -1. */
static ssize_t copy_memory(void *to, const void *from, size_t len) {
  size_t left_in_page = PAGE - (uintptr_t)from % PAGE;
  if (len > left_in_page) len = left_in_page;
  struct iovec local = {to, len}, remote = {(void *)(uintptr_t)from, len};
  ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (got < 0 && (errno == EPERM || errno == ENOSYS || errno == ESRCH))
    got = read_through_pipe(to, from, len);
  return got > 0 ? got : -1;
}

static outcome copy_value(const char *from, char **value) {
  size_t len = 0, capacity = 0;
  char *text = NULL;
  while (len < MAX_VALUE) {
    if (capacity - len < CHUNK + 1) {
      char *larger = realloc(text, capacity + 4 * CHUNK);
      if (!larger) return free(text), NO_MEMORY;
      text = larger;
      capacity += 4 * CHUNK;
    }
    ssize_t got = copy_memory(text + len, from + len, CHUNK);
    if (got < 0) return free(text), CHANGED;
    char *end = memchr(text + len, 0, (size_t)got);
    if (end) return *value = text, READ;
    len += (size_t)got;
  }
  free(text);
  return CHANGED;
}

static size_t within_page(const char *p, size_t len) {
  size_t left = PAGE - (uintptr_t)p % PAGE;
  return len < left ? len : left;
}

/* The beginnings of some variables, in one system call where that is allowed. */
static bool copy_heads(char heads[BATCH][HEAD], char *const *variables, size_t count) {
  struct iovec local[BATCH], remote[BATCH];
  size_t wanted = 0;
  memset(heads, 0, count * sizeof *heads);
  for (size_t i = 0; i < count; i++) {
    size_t len = within_page(variables[i], HEAD);
    local[i] = (struct iovec){heads[i], len};
    remote[i] = (struct iovec){variables[i], len};
    wanted += len;
  }
  if (process_vm_readv(getpid(), local, count, remote, count, 0) != (ssize_t)wanted) {
    for (size_t i = 0; i < count; i++)
      if (copy_memory(heads[i], variables[i], HEAD) < 0) return false;
  }
  for (size_t i = 0; i < count; i++) { /* those that go on in the next page */
    size_t len = within_page(variables[i], HEAD);
    if (len < HEAD && !memchr(heads[i], 0, len)) copy_memory(heads[i] + len, variables[i] + len, HEAD - len);
  }
  return true;
}

/* Whether it may be the beginning of NAME=VALUE. What free() writes into an array that was the environment
 * is not: addresses in the heap, and then often NULL, which would pass for the end. */
static bool well_formed(const char head[HEAD]) {
  for (size_t i = 0; i < HEAD; i++) {
    if (head[i] == '=') return i > 0;
    if ((unsigned char)head[i] < ' ') return false;
  }
  return true;
}

/* FNV-1a, going on from another one. */
static uint32_t digest(uint32_t sum, const char head[HEAD]) {
  size_t len = strnlen(head, HEAD);
  for (size_t i = 0; i < len; i++) sum = (sum ^ (unsigned char)head[i]) * 16777619u;
  return (sum ^ 0xFFu) * 16777619u; /* so that an empty one counts as well */
}

static outcome read_variables(char *const *variables, size_t variable_count, const char *const *names,
                              char **values, size_t count, uint32_t *oddities) {
  char heads[BATCH][HEAD];
  if (!copy_heads(heads, variables, variable_count)) return CHANGED;
  for (size_t v = 0; v < variable_count; v++) {
    if (!well_formed(heads[v])) *oddities = digest(*oddities, heads[v]);
    for (size_t i = 0; i < count; i++) {
      size_t len = strlen(names[i]);
      if (values[i] || len >= HEAD || heads[v][len] != '=' || memcmp(heads[v], names[i], len) != 0) continue;
      outcome one = copy_value(variables[v] + len + 1, &values[i]);
      if (one != READ) return one;
    }
  }
  return READ;
}

static char **environment(void) { return *(char **volatile *)&environ; }

static outcome read_pass(const char *const *names, char **values, size_t count, bool strict) {
  char **list = environment();
  if (!list) return READ;
  uint32_t oddities = 0;
  char *batch[BATCH];
  for (size_t i = 0; i < MAX_VARIABLES;) {
    ssize_t got = copy_memory(batch, list + i, sizeof batch);
    if (got < (ssize_t)sizeof *batch) return CHANGED;
    size_t n = 0, most = (size_t)got / sizeof *batch;
    while (n < most && batch[n]) n++;
    outcome some = n ? read_variables(batch, n, names, values, count, &oddities) : READ;
    if (some != READ) return some;
    if (n < most) {
      if (!strict) known_oddities = oddities;
      bool whole = environment() == list && (!oddities || oddities == known_oddities);
      return whole || !strict ? READ : CHANGED;
    }
    i += n;
  }
  return CHANGED;
}

static bool all_found(char *const *values, size_t count) {
  size_t found = 0;
  while (found < count && values[found]) found++;
  return found == count;
}

/* A variable is missing only if two passes miss it: unsetenv moves the rest of the list down, past one that
 * is looking. What was found stays found. */
static outcome read_all(const char *const *names, char **values, size_t count, bool strict) {
  outcome result = READ;
  for (int pass = 0; pass < PASSES && result == READ; pass++) {
    result = read_pass(names, values, count, strict);
    if (result != NO_MEMORY && all_found(values, count)) return READ;
  }
  return result;
}

bool nf_env_read(const char *const *names, char **values, size_t count) {
  for (size_t i = 0; i < count; i++) values[i] = NULL;
  outcome result = read_all(names, values, count, true);
  /* setenv frees the list before it tells where the new one is, and on a busy machine a thread can be kept
   * there for some 10 ms. */
  for (int i = 0; i < PAUSES && result == CHANGED; i++) {
    struct timespec pause = {0, 1000000L << i};
    nanosleep(&pause, NULL);
    result = read_all(names, values, count, true);
  }
  if (result == CHANGED) result = read_all(names, values, count, false); /* odd, then, but not changing */
  for (size_t i = 0; i < count && result == NO_MEMORY; i++) {
    free(values[i]);
    values[i] = NULL;
  }
  return result != NO_MEMORY; /* an environment that never holds still reads as what was found in it */
}

char *nf_env_get(const char *name) {
  static _Thread_local char copy[1000];
  char *value;
  if (!nf_env_read(&name, &value, 1) || !value) return NULL;
  size_t len = strlen(value);
  bool fits = len < sizeof copy;
  if (fits) memcpy(copy, value, len + 1);
  free(value);
  return fits ? copy : NULL;
}
