/* Makes and sends reports through the public C ABI of any libdatadog v6 library, as its arguments say, and
 * prints what came of each call. The library is loaded by path, so that one driver serves ours and another
 * implementation.
 *
 *   driver LIBRARY [option value]...
 *
 * Values that start with "hex:" are decoded first, so that any byte can be passed. Output, one fact a line:
 *   status MS CODE | new_error TEXT | build_error TEXT | send_error MS TEXT | tag_error TEXT | woken MS | ...
 */
#include "preload.h"
#include "report.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- what must be the same before and after ---- */

typedef struct snapshot {
  struct sigaction actions[64];
  sigset_t mask;
  size_t descriptors, threads, resident_kb;
} snapshot;

static size_t entries_in(const char *folder) {
  size_t count = 0;
  DIR *dir = opendir(folder);
  while (dir && readdir(dir)) count++;
  if (dir) closedir(dir);
  return count;
}

static size_t open_descriptors(void) {
  size_t count = 0;
  for (int fd = 0; fd < 4096; fd++) count += fcntl(fd, F_GETFD) != -1;
  return count;
}

static bool own_descriptors[4096]; /* open before the library came */

static const char *kind_of(int fd) {
  int domain = -1;
  socklen_t len = sizeof domain;
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
  return domain == -1 ? "no socket" : domain == AF_UNIX ? "unix" : "network";
}

static size_t resident_kb(void) {
  size_t size = 0, resident = 0;
  FILE *in = fopen("/proc/self/statm", "r");
  if (in && fscanf(in, "%zu %zu", &size, &resident) != 2) resident = 0;
  if (in) fclose(in);
  return resident * 4;
}

/* Not getrusage's, which also knows the program that started this one. */
static long peak_kb(void) {
  long peak = 0;
  char line[256];
  FILE *in = fopen("/proc/self/status", "r");
  while (in && fgets(line, sizeof line, in)) {
    if (sscanf(line, "VmHWM: %ld", &peak) == 1) break;
  }
  if (in) fclose(in);
  return peak;
}

static void take_snapshot(snapshot *s) {
  memset(s, 0, sizeof *s);
  for (int i = 1; i < 64; i++) sigaction(i, NULL, &s->actions[i]);
  pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
  s->descriptors = open_descriptors();
  s->threads = entries_in("/proc/self/task");
  s->resident_kb = resident_kb();
}

/* What is left in this thread's error queue of OpenSSL misleads the next that asks there, e.g. Ruby's
 * openssl. */
static int openssl_errors(void) {
  void *libcrypto = dlopen("libcrypto.so.3", RTLD_LAZY | RTLD_NOLOAD);
  unsigned long (*peek)(void) =
      libcrypto ? (unsigned long (*)(void))dlsym(libcrypto, "ERR_peek_error") : NULL;
  return peek && peek() != 0;
}

static void print_changes(const snapshot *before) {
  snapshot after;
  take_snapshot(&after);
  int dispositions = 0;
  for (int i = 1; i < 64; i++) dispositions += before->actions[i].sa_handler != after.actions[i].sa_handler;
  printf("dispositions\t%d\n", dispositions);
  printf("mask\t%d\n", memcmp(&before->mask, &after.mask, sizeof after.mask) != 0);
  printf("descriptors\t%ld\n", (long)after.descriptors - (long)before->descriptors);
  printf("openssl_errors\t%d\n", openssl_errors());
  printf("threads\t%ld\n", (long)after.threads - (long)before->threads);
}

/* ---- circumstances: other threads, the environment, signals ---- */

static atomic_bool stop;
static const options *shared_options;

static void *report_until_stopped(void *unused) {
  (void)unused;
  options once = *shared_options;
  once.quiet = true;
  while (!stop) report(&once);
  return NULL;
}

static void *storm_environment(void *unused) {
  (void)unused;
  for (unsigned i = 0; !stop; i++) {
    char name[32], value[64];
    snprintf(name, sizeof name, "NF_STORM_%u", i % 5000);
    snprintf(value, sizeof value, "%u", i);
    setenv(name, value, 1);
    if (i % 3 == 0) unsetenv(name);
  }
  return NULL;
}

static volatile sig_atomic_t ticks;
static void on_sigprof(int number) {
  (void)number;
  ticks++;
}

/* Without SA_RESTART, which is the harder case: every blocking call is cut short. */
static void storm_signals(long hz) {
  struct sigaction action = {.sa_handler = on_sigprof};
  sigaction(SIGPROF, &action, NULL);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
  timer_t timer;
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  struct itimerspec every = {{0, 1000000000L / hz}, {0, 1000000000L / hz}};
  timer_settime(timer, 0, &every, NULL);
}

static atomic_bool probing;

/* How many descriptors a program started in the middle of a report would inherit, beyond those of before. */
static void *probe_descriptors(void *unused) {
  (void)unused;
  bool before[4096];
  long inherited = 0, opened = 0;
  for (int fd = 0; fd < 4096; fd++) before[fd] = fcntl(fd, F_GETFD) != -1;
  probing = true;
  usleep((useconds_t)shared_options->probe_after_ms * 1000);
  for (int fd = 0; fd < 4096; fd++) {
    int flags = fcntl(fd, F_GETFD);
    opened += !before[fd] && flags != -1;
    if (before[fd] || flags == -1 || (flags & FD_CLOEXEC)) continue;
    inherited++;
    printf("inheritable_descriptor\t%d\t%s\n", fd, kind_of(fd));
  }
  printf("inheritable\t%ld\t%ld\n", inherited, opened);
  return NULL;
}

/* Starts programs (this one, see list_descriptors) all the time, by fork and by posix_spawn in turn. */
static void *storm_programs(void *unused) {
  (void)unused;
  static const char *const ways[] = {"fork", "posix_spawn"};
  for (int fd = 3; fd < 4096; fd++)
    if (own_descriptors[fd]) fcntl(fd, F_SETFD, FD_CLOEXEC);
  long started[2] = {0, 0};
  for (int way = 0; !stop; way = !way) {
    char *const arguments[] = {"driver", "--list-descriptors", (char *)(uintptr_t)ways[way], NULL};
    pid_t child;
    if (way == 0 && (child = fork()) == 0) {
      execv("/proc/self/exe", arguments);
      _exit(127);
    }
    if (way == 1) posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ);
    int status = 0;
    if (waitpid(child, &status, 0) == child && status == 0) started[way]++;
  }
  printf("started\t%ld\t%ld\n", started[0], started[1]);
  return NULL;
}

/* What such a program has been left. */
static int list_descriptors(const char *way) {
  for (int fd = 3; fd < 4096; fd++) {
    char path[64], what[256];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(path, what, sizeof what);
    if (len > 0) printf("started_with\t%s\t%.*s\n", way, (int)len, what);
  }
  return 0;
}

/* ---- forks ---- */

static void child_reports(const options *o, long number) {
  for (int fd = 0; fd < 4096; fd++) {
    if (!own_descriptors[fd] && fcntl(fd, F_GETFD) != -1) printf("inherited\t%s\n", kind_of(fd));
  }
  alarm(20); /* a child that hangs shows as killed by SIGALRM */
  options once = *o;
  once.quiet = true;
  char tag[96];
  snprintf(tag, sizeof tag, "child=%ld at %.3f", number, now_ms());
  once.request_tags[once.request_tag_count++] = (bytes){tag, strlen(tag)};
  bool ok = report(&once);
  if (o->shared_token) ok = ok && cancel_shared_token() && !report(&once) && !cancel_shared_token();
  fflush(stdout);
  if (o->linger_ms) usleep((useconds_t)o->linger_ms * 1000);
  _exit(ok ? 0 : 1);
}

static int wait_for_child(void) {
  int status;
  pid_t child = wait(&status);
  if (child < 0) die("wait", strerror(errno));
  if (status != 0) printf("child_failed\t%#x\n", status);
  return status != 0;
}

/* Forks, while other threads may export; up to `children` at once; each child sends one report. */
static int fork_soak(const options *o) {
  int failures = 0;
  long running = 0;
  for (long i = 0; i < o->forks; i++) {
    if (o->reuse) failures += !report(o); /* parent and children then go on with one exporter */
    pid_t child = fork();
    if (child < 0) die("fork", strerror(errno));
    if (child == 0) child_reports(o, i);
    if (++running >= o->children) failures += wait_for_child(), running--;
    if (o->pause_ms) usleep((useconds_t)o->pause_ms * 1000);
  }
  for (; running > 0; running--) failures += wait_for_child();
  printf("forks\t%ld\t%d\n", o->forks, failures);
  return failures;
}

/* A child, its child, and so on: each reports, the last first. */
static int fork_chain(const options *o) {
  for (long i = 0;; i++) {
    alarm(120);
    int failures = !report(o);
    if (i == o->chain) {
      printf("chain_end\t%ld\t%zu\n", i, resident_kb());
      return failures;
    }
    if (i == 5) printf("chain_begin\t%ld\t%zu\n", i, resident_kb());
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) die("fork", strerror(errno));
    if (child == 0) continue;
    failures += wait_for_child();
    if (i > 0) _exit(failures ? 1 : 0);
    return failures;
  }
}

/* ---- secrets ---- */

/* How often the text (each byte given xor 0x5a, so that it does not find itself) is in this process's memory.
 */
static long find_in_memory(const unsigned char *masked, size_t len) {
  FILE *maps = fopen("/proc/self/maps", "r");
  int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  static unsigned char chunk[1 << 16];
  long found = 0;
  char line[512];
  if (!maps || memory < 0) die("/proc/self", strerror(errno));
  while (fgets(line, sizeof line, maps)) {
    unsigned long from, to;
    char access[8];
    if (sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3 || access[0] != 'r' || access[1] != 'w')
      continue;
    for (unsigned long at = from; at < to; at += sizeof chunk - len) {
      size_t want = to - at < sizeof chunk ? to - at : sizeof chunk;
      if (at <= (unsigned long)chunk && (unsigned long)chunk < at + want) continue; /* our own reading */
      if (at >= (unsigned long)chunk && at < (unsigned long)chunk + sizeof chunk) continue;
      ssize_t got = pread(memory, chunk, want, (off_t)at);
      for (ssize_t i = 0; i + (ssize_t)len <= got; i++) {
        size_t same = 0;
        while (same < len && (chunk[i + (ssize_t)same] ^ 0x5a) == masked[same]) same++;
        if (same < len) continue;
        found++;
        printf("secret_at\t%s", line);
        i += (ssize_t)len;
      }
      memset(chunk, 0, sizeof chunk);
    }
  }
  close(memory);
  fclose(maps);
  return found;
}

/* ---- null arguments ---- */

static void try_nulls(const options *o) {
  call_ddog_prof_Exporter_drop(NULL);
  call_ddog_prof_Exporter_Request_drop(NULL);
  struct ddog_prof_Exporter_Request *none = NULL;
  call_ddog_prof_Exporter_Request_drop(&none);
  call_ddog_CancellationToken_drop(NULL);
  printf("cancel_null\t%d\n", call_ddog_CancellationToken_cancel(NULL));
  printf("clone_null\t%d\n", call_ddog_CancellationToken_clone(NULL) == NULL);
  ddog_prof_Exporter_SendResult sent = call_ddog_prof_Exporter_send(NULL, NULL, NULL);
  if (sent.tag == DDOG_PROF_EXPORTER_SEND_RESULT_ERR) print_error("send_null_null", &sent.err);
  ddog_prof_Exporter_Slice_File no_files = {NULL, 0};
  ddog_prof_Exporter_Request_BuildResult built = call_ddog_prof_Exporter_Request_build(
      NULL, o->start, o->end, no_files, no_files, NULL, NULL, NULL, NULL, 1000);
  if (built.tag == DDOG_PROF_EXPORTER_REQUEST_BUILD_RESULT_ERR) print_error("build_null", &built.err);
  ddog_CharSlice text = {"x", 1};
  ddog_prof_Exporter_NewResult made = call_ddog_prof_Exporter_new(
      text, text, text, NULL, call_ddog_Endpoint_agent((ddog_CharSlice){o->url.ptr, o->url.len}));
  if (made.tag != DDOG_PROF_EXPORTER_NEW_RESULT_OK) die("new", "failed");
  sent = call_ddog_prof_Exporter_send(made.ok, NULL, NULL);
  if (sent.tag == DDOG_PROF_EXPORTER_SEND_RESULT_ERR) print_error("send_null", &sent.err);
  sent = call_ddog_prof_Exporter_send(made.ok, &none, NULL);
  if (sent.tag == DDOG_PROF_EXPORTER_SEND_RESULT_ERR) print_error("send_inner_null", &sent.err);
  built = call_ddog_prof_Exporter_Request_build(made.ok, o->start, o->end, no_files, no_files, NULL, NULL,
                                                NULL, NULL, 1000);
  if (built.tag != DDOG_PROF_EXPORTER_REQUEST_BUILD_RESULT_OK) die("build", "failed");
  sent = call_ddog_prof_Exporter_send(NULL, &built.ok, NULL);
  if (sent.tag == DDOG_PROF_EXPORTER_SEND_RESULT_ERR) print_error("send_exporter_null", &sent.err);
  printf("request_taken\t%d\n", built.ok == NULL);
  call_ddog_prof_Exporter_drop(made.ok);
}

/* ---- torture: the n-th allocation fails, for every n ---- */

#define PRELOADED(f) ((__typeof__(f) *)dlsym(RTLD_DEFAULT, #f))

static int torture(const options *o) {
  __typeof__(nf_preload_arm) *arm = PRELOADED(nf_preload_arm);
  if (!arm) die("torture", "preload.c is not loaded");
  __typeof__(nf_preload_count) *counted = PRELOADED(nf_preload_count);
  __typeof__(nf_preload_outstanding) *outstanding = PRELOADED(nf_preload_outstanding);
  __typeof__(nf_preload_enter) *enter = PRELOADED(nf_preload_enter), *leave = PRELOADED(nf_preload_leave);
  int leaks = 0;
  /* What is made once per process is made now. */
  for (int i = 0; i < 2; i++) arm(0, false), report_quietly(o, enter, leave), outstanding(false);
  for (long n = o->torture_from; n <= o->torture_to; n += o->torture_step) {
    for (int from_there_on = 0; from_there_on < 2; from_there_on++) {
      arm(n, from_there_on);
      char outcome = report_quietly(o, enter, leave);
      long count = counted();
      size_t leaked = outstanding(false);
      if (leaked) { /* once more: what stays the second time too was no cache */
        arm(n, from_there_on);
        report_quietly(o, enter, leave);
        leaked = outstanding(true);
      }
      if (n > count && from_there_on) {
        printf("torture_end\t%ld\t%c\n", n, outcome);
        return leaks;
      }
      printf("torture\t%ld\t%d\t%c\t%zu\n", n, from_there_on, outcome, leaked);
      leaks += leaked > 0;
    }
  }
  return leaks;
}

/* In a thread with a small stack, as some programs have. */
static void *report_on_small_stack(void *failures) {
  *(int *)failures += !report(shared_options);
  return NULL;
}

static int small_stack(const options *o) {
  int failures = 0;
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, (size_t)o->stack_kb * 1024) != 0) die("stack", "too small");
  if (pthread_create(&thread, &attributes, report_on_small_stack, &failures) != 0) die("stack", "no thread");
  pthread_join(thread, NULL);
  return failures;
}

/* The library comes, sends and goes, again and again; forks in between find no trace of it. */
static int reload(const options *o, const char *path) {
  int failures = 0;
  for (long i = 0; i < o->reload; i++) {
    failures += !report(o);
    unload_library();
    pid_t child = fork();
    if (child == 0) _exit(0);
    failures += wait_for_child();
    load_library(path);
  }
  return failures;
}

static int repeat(const options *o) {
  int failures = 0;
  size_t first = 0;
  for (long i = 0; i < o->repeat; i++) {
    failures += !report(o);
    if (i == o->repeat / 5) first = resident_kb();
    if (o->pause_ms) usleep((useconds_t)o->pause_ms * 1000);
  }
  printf("growth_kb\t%ld\n", (long)resident_kb() - (long)first);
  return failures;
}

int main(int argc, char **argv) {
  if (argc < 2) die("usage", "driver LIBRARY [option value]...");
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (strcmp(argv[1], "--list-descriptors") == 0) return list_descriptors(argc > 2 ? argv[2] : "");
  options o;
  parse_options(&o, argc, argv);
  if (o.sigprof_hz > 0) storm_signals(o.sigprof_hz);
  snapshot before;
  struct rlimit all_descriptors;
  getrlimit(RLIMIT_NOFILE, &all_descriptors);
  for (long i = 0; i < o.open; i++) {
    if (dup(STDERR_FILENO) < 0) die("dup", strerror(errno));
  }
  take_snapshot(&before);
  for (int fd = 0; fd < 4096; fd++) own_descriptors[fd] = fcntl(fd, F_GETFD) != -1;
  load_library(argv[1]);
  if (o.shared_token) share_token();
  if (o.descriptors > 0) {
    struct rlimit few = {(rlim_t)o.descriptors, all_descriptors.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  __typeof__(nf_preload_watch) *watch = PRELOADED(nf_preload_watch);
  pthread_t threads[MAX_ITEMS], storm, programs, probe;
  long thread_count = o.threads < MAX_ITEMS ? o.threads : MAX_ITEMS;
  shared_options = &o;
  if (o.warm && !report(&o)) die("warm", "the first report failed");
  if (o.storm) pthread_create(&storm, NULL, storm_environment, NULL);
  if (o.spawn_storm) pthread_create(&programs, NULL, storm_programs, NULL);
  if (o.probe_after_ms > 0) pthread_create(&probe, NULL, probe_descriptors, NULL);
  while (o.probe_after_ms > 0 && !probing) usleep(1000);
  if (watch) watch(true);
  for (long i = 0; i < thread_count; i++) pthread_create(&threads[i], NULL, report_until_stopped, NULL);

  unsigned char masked[256];
  size_t len = o.key.len < sizeof masked ? o.key.len : sizeof masked;
  for (size_t i = 0; i < len; i++) masked[i] = (unsigned char)o.key.ptr[i] ^ 0x5a;
  __typeof__(nf_preload_watch_secret) *watch_secret = PRELOADED(nf_preload_watch_secret);
  if (o.secrets && watch_secret) watch_secret(masked, len);

  int failures = 0;
  if (o.nulls)
    try_nulls(&o);
  else if (o.torture_to > 0)
    failures = torture(&o);
  else if (o.stack_kb > 0)
    failures = small_stack(&o);
  else if (o.reload > 0)
    failures = reload(&o, argv[1]);
  else if (o.chain > 0)
    failures = fork_chain(&o);
  else if (o.forks > 0)
    failures = fork_soak(&o);
  else
    failures = repeat(&o);

  stop = true;
  for (long i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
  if (o.storm) pthread_join(storm, NULL);
  if (o.spawn_storm) pthread_join(programs, NULL);
  if (o.probe_after_ms > 0) pthread_join(probe, NULL);
  if (watch) watch(false);
  setrlimit(RLIMIT_NOFILE, &all_descriptors);
  if (!o.reuse) print_changes(&before);
  if (o.secrets) {
    __typeof__(nf_preload_freed_secrets) *freed = PRELOADED(nf_preload_freed_secrets);
    if (freed) printf("secrets_freed\t%ld\n", freed());
    printf("secrets_control\t%ld\n", find_in_memory(masked, len)); /* the driver's own copy */
    explicit_bzero(o.key.ptr, o.key.len);
    printf("secrets\t%ld\n", find_in_memory(masked, len));
  }
  printf("peak_kb\t%ld\n", peak_kb());
  return failures ? 1 : 0;
}
