#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* ---- calls that a library has no business making in a host process ---- */

static volatile bool watching;

static void note(const char *function, long detail, void *caller) {
  if (!watching) return;
  Dl_info info;
  const char *object = dladdr(caller, &info) && info.dli_fname ? info.dli_fname : "?";
  const char *base = strrchr(object, '/');
  char line[512];
  int len = snprintf(line, sizeof line, "called\t%s\t%ld\t%s\n", function, detail, base ? base + 1 : object);
  if (len > 0 && write(STDOUT_FILENO, line, (size_t)len) < 0) return;
}

EXPORT void nf_preload_watch(bool on) { watching = on; }

#define REAL(f) ((__typeof__(f) *)dlsym(RTLD_NEXT, #f))

EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
  if (action) note("sigaction", number, __builtin_return_address(0));
  return REAL(sigaction)(number, action, old);
}

EXPORT sighandler_t signal(int number, sighandler_t handler) {
  note("signal", number, __builtin_return_address(0));
  return REAL(signal)(number, handler);
}

EXPORT unsigned alarm(unsigned seconds) {
  note("alarm", seconds, __builtin_return_address(0));
  return REAL(alarm)(seconds);
}

EXPORT int setitimer(__itimer_which_t which, const struct itimerval *value, struct itimerval *old) {
  note("setitimer", which, __builtin_return_address(0));
  return REAL(setitimer)(which, value, old);
}

EXPORT int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer) {
  note("timer_create", clock, __builtin_return_address(0));
  return REAL(timer_create)(clock, event, timer);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument) {
  note("pthread_create", 0, __builtin_return_address(0));
  return REAL(pthread_create)(thread, attributes, run, argument);
}

/* ---- the environment ---- */

static void note_reading(const char *name, void *caller) {
  if (!watching) return;
  Dl_info info;
  const char *object = dladdr(caller, &info) && info.dli_fname ? info.dli_fname : "?";
  char line[512];
  int len = snprintf(line, sizeof line, "getenv\t%.200s\t%.200s\n", name, object);
  if (len > 0 && write(STDOUT_FILENO, line, (size_t)len) < 0) return;
}

EXPORT char *getenv(const char *name) {
  note_reading(name, __builtin_return_address(0));
  return REAL(getenv)(name);
}

EXPORT char *secure_getenv(const char *name) {
  note_reading(name, __builtin_return_address(0));
  return REAL(secure_getenv)(name);
}

/* ---- files ---- */

static void note_opening(const char *path) {
  if (!watching) return;
  char line[512];
  int len = snprintf(line, sizeof line, "opened\t%.400s\n", path);
  if (len > 0 && write(STDOUT_FILENO, line, (size_t)len) < 0) return;
}

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

#define OPEN(name)                                                                                           \
  EXPORT int name(const char *path, int flags, ...) {                                                        \
    va_list rest;                                                                                            \
    va_start(rest, flags);                                                                                   \
    mode_t mode = mode_of(flags, rest);                                                                      \
    va_end(rest);                                                                                            \
    note_opening(path);                                                                                      \
    return REAL(name)(path, flags, mode);                                                                    \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                         \
  EXPORT int name(int folder, const char *path, int flags, ...) {                                            \
    va_list rest;                                                                                            \
    va_start(rest, flags);                                                                                   \
    mode_t mode = mode_of(flags, rest);                                                                      \
    va_end(rest);                                                                                            \
    note_opening(path);                                                                                      \
    return REAL(name)(folder, path, flags, mode);                                                            \
  }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                                                                          \
  EXPORT FILE *name(const char *path, const char *mode) {                                                    \
    note_opening(path);                                                                                      \
    return REAL(name)(path, mode);                                                                           \
  }
FOPEN(fopen)
FOPEN(fopen64)

/* ---- memory ---- */

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

enum { SLOTS = 1 << 18, FRAMES = 12 };

typedef struct block {
  void *ptr; /* NULL: never used; TOMBSTONE: freed */
  size_t size;
  void *callers[FRAMES];
  int caller_count;
} block;

#define TOMBSTONE ((void *)1)

static block *blocks; /* made when first armed */
static size_t used_slots;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static long failing, count;
static bool failing_on, with_callers;
static _Thread_local bool inside __attribute__((tls_model("initial-exec")));

static size_t slot_of(const void *ptr) { return ((uintptr_t)ptr >> 4) * 0x9e3779b97f4a7c15u >> 46; }

static void remember(void *ptr, size_t size) {
  inside = false; /* backtrace may allocate */
  pthread_mutex_lock(&blocks_lock);
  if (used_slots > SLOTS / 2) abort();
  size_t i = slot_of(ptr);
  while (blocks[i].ptr && blocks[i].ptr != TOMBSTONE) i = (i + 1) % SLOTS;
  used_slots += blocks[i].ptr == NULL;
  blocks[i].ptr = ptr;
  blocks[i].size = size;
  blocks[i].caller_count = with_callers ? backtrace(blocks[i].callers, FRAMES) : 0;
  pthread_mutex_unlock(&blocks_lock);
  inside = true;
}

static void forget(void *ptr) {
  if (!blocks || !ptr) return;
  pthread_mutex_lock(&blocks_lock);
  for (size_t i = slot_of(ptr); blocks[i].ptr; i = (i + 1) % SLOTS) {
    if (blocks[i].ptr != ptr) continue;
    blocks[i].ptr = TOMBSTONE;
    break;
  }
  pthread_mutex_unlock(&blocks_lock);
}

static bool fails(void) {
  if (!inside) return false;
  count++;
  if (failing == 0 || !(failing_on ? count >= failing : count == failing)) return false;
  errno = ENOMEM;
  return true;
}

static unsigned char secret[256]; /* masked */
static size_t secret_len;
static atomic_long freed_secrets;

static void look_for_secret(const unsigned char *block) {
  if (!secret_len || !block) return;
  size_t size = malloc_usable_size((void *)(uintptr_t)block);
  for (size_t i = 0; i + secret_len <= size; i++) {
    size_t same = 0;
    while (same < secret_len && (block[i + same] ^ 0x5a) == secret[same]) same++;
    if (same < secret_len) continue;
    freed_secrets++;
    if (getenv("NF_PRELOAD_CALLERS")) {
      void *callers[FRAMES];
      backtrace_symbols_fd(callers, backtrace(callers, FRAMES), STDERR_FILENO);
    }
    return;
  }
}

EXPORT void nf_preload_watch_secret(const unsigned char *masked, size_t len) {
  memcpy(secret, masked, len);
  secret_len = len;
}

EXPORT long nf_preload_freed_secrets(void) { return freed_secrets; }

static void *took(void *ptr, size_t size) {
  if (inside && ptr) remember(ptr, size);
  return ptr;
}

EXPORT void *malloc(size_t size) { return fails() ? NULL : took(__libc_malloc(size), size); }

EXPORT void *calloc(size_t n, size_t size) { return fails() ? NULL : took(__libc_calloc(n, size), n * size); }

EXPORT void *realloc(void *old, size_t size) {
  if (fails()) return NULL;
  look_for_secret(old);
  forget(old);
  return took(__libc_realloc(old, size), size);
}

EXPORT void free(void *ptr) {
  look_for_secret(ptr);
  forget(ptr);
  __libc_free(ptr);
}

EXPORT void *memalign(size_t alignment, size_t size) {
  return fails() ? NULL : took(__libc_memalign(alignment, size), size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
  void *ptr = memalign(alignment, size);
  if (!ptr) return ENOMEM;
  *out = ptr;
  return 0;
}

EXPORT void nf_preload_arm(long nth, bool from_there_on) {
  if (!blocks) {
    blocks = __libc_calloc(SLOTS, sizeof *blocks);
    with_callers = getenv("NF_PRELOAD_CALLERS") != NULL;
    void *warm[1];
    backtrace(warm, 1);
  }
  failing = nth;
  failing_on = from_there_on;
  count = 0;
}

EXPORT void nf_preload_enter(void) { inside = true; }
EXPORT void nf_preload_leave(void) { inside = false; }
EXPORT long nf_preload_count(void) { return count; }

EXPORT size_t nf_preload_outstanding(bool print) {
  size_t found = 0;
  for (size_t i = 0; blocks && i < SLOTS; i++) {
    if (blocks[i].ptr && blocks[i].ptr != TOMBSTONE) {
      found++;
      if (print) printf("leak\t%zu\t", blocks[i].size);
      for (int c = 3; print && c < blocks[i].caller_count; c++) {
        Dl_info info;
        bool known = dladdr(blocks[i].callers[c], &info) && info.dli_fname;
        const char *base = known ? strrchr(info.dli_fname, '/') : NULL;
        printf(" %s+%#zx(%s)", base ? base + 1 : "?",
               known ? (size_t)((char *)blocks[i].callers[c] - (char *)info.dli_fbase) : 0,
               known && info.dli_sname ? info.dli_sname : "");
      }
      if (print) printf("\n");
    }
    blocks[i].ptr = NULL;
  }
  used_slots = 0;
  return found;
}
