#ifndef NF_PRIVATE_VM_SHAPE_H
#define NF_PRIVATE_VM_SHAPE_H

// What differs between the releases of Ruby whose inside is known, under names of our own. Part of
// private_vm_access.c. Since 3.0, threads and their lock belong to a Ractor (the main one is meant
// everywhere), before to the VM; and since 3.1 a thread's structure holds its kernel id.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#if RUBY_API_VERSION_CODE >= 30000
#define HAS_RACTORS
#define HOME "main Ractor"
#define CURRENT_EC ruby_current_ec // of this thread
#define THREAD_LIST(home) ((home)->threads.set)
#define THREAD_NODE lt_node
#define GVL_OWNER(home) ((home)->threads.gvl.owner)
#define MAIN_THREAD(home) ((home)->threads.main)
typedef rb_ractor_t thread_home;
static inline thread_home *home_of(rb_vm_t *vm) { return vm->ractor.main_ractor; }
#else
#define HOME "VM"
#define CURRENT_EC ruby_current_execution_context_ptr // of the thread that holds the GVL
#define THREAD_LIST(home) ((home)->living_threads)
#define THREAD_NODE vmlt_node
#define GVL_OWNER(home) ((home)->gvl.owner)
#define MAIN_THREAD(home) ((home)->main_thread)
typedef rb_vm_t thread_home;
static inline thread_home *home_of(rb_vm_t *vm) { return vm; }
#endif

#if RUBY_API_VERSION_CODE >= 30100
#define THREADS_HOLD_THEIR_TID
#define IN_JIT(cfp) ((cfp)->jit_return != NULL)
#else
#define IN_JIT(cfp) false // no frame says it
#endif

// Where the kernel forbids reading like a debugger, a pipe takes the bytes: it refuses bad addresses, too. In
// pieces, as the smallest pipe holds one page; and one that is too small is an error rather than a wait.
static bool copy_through_pipe(char *to, const char *from, size_t size) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  bool copied = true;
  while (copied && size > 0) {
    size_t piece = size < PIPE_BUF ? size : PIPE_BUF;
    copied = write(ends[1], from, piece) == (ssize_t)piece && read(ends[0], to, piece) == (ssize_t)piece;
    to += piece;
    from += piece;
    size -= piece;
  }
  close(ends[0]);
  close(ends[1]);
  return copied;
}

static bool copy(void *to, const void *from, size_t size) {
  struct iovec local = {.iov_base = to, .iov_len = size};
  struct iovec remote = {.iov_base = (void *)from, .iov_len = size};
  if (syscall(SYS_process_vm_readv, getpid(), &local, 1L, &remote, 1L, 0L) == (long)size) return true;
  return (errno == EPERM || errno == ENOSYS) && copy_through_pipe(to, from, size);
}

#ifdef THREADS_HOLD_THEIR_TID
static bool thread_exists(pid_t tid) { return tid > 0 && syscall(SYS_tgkill, getpid(), tid, 0) == 0; }
#else
// The C library holds the kernel id, in what a pthread_t points to; where, it says nowhere. So we look for
// the id of this thread, and of another one, and take the place where both have theirs. glibc and musl set it
// anew in a forked child.
#define TID_WORDS 256 // glibc (amd64): 720 bytes into it

static size_t tid_place;

static const void *tid_at(pthread_t thread) { return (const char *)thread + tid_place; }

typedef struct words_of_thread {
  bool read;
  pid_t tid, words[TID_WORDS];
} words_of_thread;

static void *read_own_words(void *data) {
  words_of_thread *own = data;
  own->tid = (pid_t)syscall(SYS_gettid);
  own->read = copy(own->words, (const void *)pthread_self(), sizeof(own->words));
  return NULL;
}

static bool find_tids(void) {
  words_of_thread here = {.read = false}, there = {.read = false};
  read_own_words(&here);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); // the program's signals are not for that thread
  pthread_t other;
  bool started = pthread_create(&other, NULL, read_own_words, &there) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!started) return false;
  pthread_join(other, NULL);
  if (!here.read || !there.read) return false;
  for (int i = 0; i < TID_WORDS; i++) {
    if (here.words[i] != here.tid || there.words[i] != there.tid) continue;
    tid_place = (size_t)i * sizeof(pid_t);
    return true;
  }
  return false;
}
#endif

#ifndef HAS_RACTORS
// Under this key, Ruby keeps each native thread's structure. No header has it, but what it leads to is known.
static pthread_key_t thread_key;

static bool find_thread_key(void) {
  const void *current = RTYPEDDATA_DATA(rb_thread_current());
  for (thread_key = 0; thread_key < PTHREAD_KEYS_MAX; thread_key++) {
    if (pthread_getspecific(thread_key) == current) return true;
  }
  return false;
}
#endif

#endif
