// The public tier: what Ruby's public functions tell about the VM. Most of what is to be known of a thread
// (its name, its kernel id, where it was born) only methods tell, and whoever calls a method of Ruby also
// looks at the interrupts of the thread: an exception that the program sends to it (by Timeout, Thread#raise,
// Thread#kill) would come out of a sample, where it would be lost. So methods are called at safe places only:
// when a thread begins, on itself, when it gets a name, and when a profile begins. Samples read what was kept
// then in a record that lives as long as its Thread.
//
// A nf_vm_thread is the Thread object itself: the VM does not move the objects of living threads, and whoever
// keeps one longer marks it.

#define NF_VM_TIER_NAME(name) nf_vm_public_##name
#include "vm_tier.h"

#include "clock_id.h"

#include <ruby/debug.h>
#include <ruby/thread.h>
#include <ruby/version.h>
#if RUBY_API_VERSION_CODE >= 30000
#include <ruby/ractor.h>
#endif

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern int ruby_native_thread_p(void);

typedef struct thread_record {
  VALUE name, birth_file; // String or nil
  VALUE life;             // a Mutex that the thread holds as long as it lives; nil: it was there before us
  int birth_line;
  bool described, ended;
  pid_t tid;
  uint64_t missed; // by which look at all threads, unless that finds it
  uint64_t fork;   // in which process the tid was read
} thread_record;

static ID record_key; // no name of an instance variable, so Ruby code cannot see it
static VALUE thread_list;
static uint64_t forks;

static VALUE thread_of(const nf_vm_thread *thread) { return (VALUE)thread; }

// --- records ---

static void record_mark(void *data) {
  thread_record *record = data;
  rb_gc_mark(record->name);
  rb_gc_mark(record->birth_file);
  rb_gc_mark(record->life);
}

static size_t record_size(const void *data) {
  (void)data;
  return sizeof(thread_record);
}

static const rb_data_type_t record_type = {
    .wrap_struct_name = "Datadog::Profiling thread record",
    .function = {.dmark = record_mark, .dfree = RUBY_DEFAULT_FREE, .dsize = record_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static thread_record *record_of(VALUE thread) {
  VALUE object = rb_attr_get(thread, record_key);
  return NIL_P(object) ? NULL : RTYPEDDATA_DATA(object);
}

// Ruby takes its locks from a thread that has ended in whatever way, or that a fork has left behind.
static bool lives(VALUE thread, const thread_record *record) {
  if (thread == rb_thread_main()) return true; // also that of a new child, whoever has forked it
  if (record->ended) return false;
  if (!NIL_P(record->life)) return RTEST(rb_mutex_locked_p(record->life));
  return record->fork == forks;
}

// --- all threads ---

// Those of the main Ractor that have begun, and some that have ended since.
typedef struct known_thread {
  VALUE thread; // Qfalse: it was gone at a garbage collection
  thread_record *record;
} known_thread;

static known_thread *known;
static size_t known_count, known_room;

// Threads that have ended are not kept, as that would keep their results, too. This runs in the middle of a
// garbage collection, perhaps while somebody goes through them, so the others stay where they are.
static void known_mark(void *unused) {
  (void)unused;
  for (size_t i = 0; i < known_count; i++) {
    if (known[i].thread == Qfalse) continue;
    if (lives(known[i].thread, known[i].record)) {
      rb_gc_mark(known[i].thread);
    } else {
      known[i].thread = Qfalse;
    }
  }
}

static size_t known_size(const void *unused) {
  (void)unused;
  return known_room * sizeof(*known);
}

static const rb_data_type_t known_type = {
    .wrap_struct_name = "Datadog::Profiling threads",
    .function = {.dmark = known_mark, .dsize = known_size},
};

static void drop_ended(void) {
  size_t kept = 0;
  for (size_t i = 0; i < known_count; i++) {
    if (known[i].thread != Qfalse && lives(known[i].thread, known[i].record)) known[kept++] = known[i];
  }
  known_count = kept;
}

static bool is_known(const thread_record *record) {
  for (size_t i = 0; i < known_count; i++) {
    if (known[i].thread != Qfalse && known[i].record == record) return true;
  }
  return false;
}

// Raises when there is no memory.
static void add_known(VALUE thread, thread_record *record) {
  bool full = known_count == known_room;
  if (full) drop_ended();
  if (full && known_count * 2 >= known_room) { // else it would soon be full again
    size_t wanted = known_room < 16 ? 16 : known_room * 2;
    known_thread *grown = realloc(known, wanted * sizeof(*grown));
    if (grown == NULL) rb_memerror();
    known = grown;
    known_room = wanted;
  }
  known[known_count++] = (known_thread){.thread = thread, .record = record};
}

// The record of a thread, a new one if it has none. Makes objects and may raise for lack of memory, but calls
// no method. NULL: a frozen thread can have no record, so it goes without its name.
static thread_record *adopt(VALUE thread) {
  thread_record *record = record_of(thread);
  if (record != NULL) return record;
  if (OBJ_FROZEN(thread)) return NULL;
  VALUE object = TypedData_Make_Struct(rb_cObject, thread_record, &record_type, record);
  record->name = record->birth_file = record->life = Qnil;
  record->fork = forks;
  if (thread == rb_thread_current()) record->tid = (pid_t)syscall(SYS_gettid);
  rb_ivar_set(thread, record_key, object);
  RB_GC_GUARD(object);
  add_known(thread, record);
  return record;
}

// "#<Thread:0x00007f32 @name file:line status>" is the only public word on where a thread was born.
static void read_birthplace(thread_record *record, VALUE text) {
  const char *start = RSTRING_PTR(text), *end = start + RSTRING_LEN(text);
  const char *from = memchr(start, ' ', (size_t)(end - start));
  if (from == NULL) return;
  from++;
  if (from < end && *from == '@' && RB_TYPE_P(record->name, T_STRING)) {
    from += 1 + RSTRING_LEN(record->name) + 1;
  }
  const char *colon = NULL;
  for (const char *at = from; at < end; at++) {
    if (*at == ':') colon = at;
  }
  if (colon == NULL || colon <= from) return; // main, or started from C
  char line[16] = "";
  size_t length = (size_t)(end - colon - 1) < sizeof(line) - 1 ? (size_t)(end - colon - 1) : sizeof(line) - 1;
  memcpy(line, colon + 1, length);
  record->birth_line = atoi(line);
  record->birth_file = rb_str_new(from, colon - from);
}

// At safe places only: calls methods of the thread, and raises what they raise.
static void describe(VALUE thread) {
  thread_record *record = adopt(thread);
  if (record == NULL) return;
  record->name = rb_funcall(thread, rb_intern("name"), 0);
  if (!record->described) read_birthplace(record, rb_funcall(thread, rb_intern("to_s"), 0));
  record->described = true;
  if (record->tid > 0 && record->fork == forks) return;
  pid_t tid = 0;
  if (thread == rb_thread_current()) {
    tid = (pid_t)syscall(SYS_gettid);
  } else if (thread != rb_thread_main() && nf_vm_knows_thread_ids()) {
    VALUE number = rb_funcall(thread, rb_intern("native_thread_id"), 0);
    if (FIXNUM_P(number)) tid = FIX2INT(number);
  }
  record->tid = tid;
  record->fork = forks;
}

// --- who holds the GVL ---

static _Atomic pid_t owner;

// Not for signal handlers: the first look of a thread at its own variables asks for memory, and may have been
// interrupted in the midst of that.
static pid_t tid_of_this_thread(void) {
  static __thread pid_t tid;
  static __thread uint64_t in_fork; // in which process it was read
  if (tid == 0 || in_fork != forks) {
    tid = (pid_t)syscall(SYS_gettid);
    in_fork = forks;
  }
  return tid;
}

// Kernel ids of the main Ractor's threads as of the last list; changes with the GVL (or in a new child).
#define CANDIDATES 64
static _Atomic pid_t candidates[CANDIDATES];

static void set_candidate(size_t i, pid_t tid) {
  if (i < CANDIDATES) atomic_store_explicit(&candidates[i], tid, memory_order_relaxed);
}

#if RUBY_API_VERSION_CODE >= 30200
// Threads of other Ractors have GVLs of their own, and are told of here, too. Ours say who they are when they
// begin (below); those which were there before us are candidates.
static __thread bool of_main_ractor;

static bool is_candidate(pid_t tid) {
  for (size_t i = 0; i < CANDIDATES; i++) {
    if (atomic_load_explicit(&candidates[i], memory_order_relaxed) == tid) return true;
  }
  return false;
}

// On the thread that it is about; no GVL.
static void on_thread_event(rb_event_flag_t event, const rb_internal_thread_event_data_t *details,
                            void *data) {
  (void)details;
  (void)data;
  pid_t tid = tid_of_this_thread();
  if (event == RUBY_INTERNAL_THREAD_EVENT_RESUMED) {
    if (!of_main_ractor) of_main_ractor = is_candidate(tid);
    if (of_main_ractor) atomic_store_explicit(&owner, tid, memory_order_relaxed);
  } else { // the next owner may have been quicker
    pid_t expected = tid;
    atomic_compare_exchange_strong_explicit(&owner, &expected, 0, memory_order_relaxed, memory_order_relaxed);
    // Its native thread may get another one.
    if (event == RUBY_INTERNAL_THREAD_EVENT_EXITED) of_main_ractor = false;
  }
}

static void main_ractor_thread_began(void) {
  of_main_ractor = true;
  atomic_store_explicit(&owner, tid_of_this_thread(), memory_order_relaxed);
}
#else
static void main_ractor_thread_began(void) {}

// To be asked (a signal's handler), or to sample, takes less, on any machine. Who has used no more has slept.
#define LEAST_USED_NS 200000

// Before 3.2 nobody tells. The thread that has used most CPU time since the last question is a good guess:
// most of what runs does so with the GVL, and whoever is asked in vain only looks at its interrupts. Called
// by one thread only, without the GVL.
static pid_t guess_owner(void) {
  static pid_t known[CANDIDATES];
  static int64_t used[CANDIDATES];
  pid_t best = 0, self = tid_of_this_thread();
  int64_t most = LEAST_USED_NS;
  for (size_t i = 0; i < CANDIDATES; i++) {
    pid_t tid = atomic_load_explicit(&candidates[i], memory_order_relaxed);
    struct timespec time;
    if (tid <= 0 || tid == self || clock_gettime(nf_cpu_clock_id_of_tid(tid), &time) != 0) continue;
    int64_t now = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    int64_t since = known[i] == tid ? now - used[i] : 0;
    known[i] = tid;
    used[i] = now;
    if (since > most) {
      most = since;
      best = tid;
    }
  }
  return best;
}
#endif

bool nf_vm_holds_gvl(void) {
  if (!nf_vm_knows_gvl_owner()) return false; // Ruby's own answer is wrong in a signal handler
  if (atomic_load_explicit(&owner, memory_order_relaxed) != (pid_t)syscall(SYS_gettid)) return false;
  return ruby_native_thread_p() && nf_vm_on_main_ractor();
}

pid_t nf_vm_gvl_owner_tid(void) {
#if RUBY_API_VERSION_CODE >= 30200
  return atomic_load_explicit(&owner, memory_order_relaxed);
#else
  return guess_owner();
#endif
}

#if RUBY_API_VERSION_CODE >= 30000
static rb_ractor_local_key_t main_ractor_key;
static struct rb_ractor_local_storage_type main_ractor_mark = {NULL, NULL};
#endif

bool nf_vm_on_main_ractor(void) {
#if RUBY_API_VERSION_CODE >= 30000
  return rb_ractor_local_storage_ptr(main_ractor_key) != NULL;
#else
  return true;
#endif
}

// --- threads ---

static __thread bool at_work;

bool nf_vm_at_work(void) { return at_work; }

static void on_begin(VALUE thread) {
  at_work = true; // an exception from here ends the thread
  thread_record *record = adopt(thread);
  if (record != NULL && NIL_P(record->life)) {
    record->life = rb_obj_hide(rb_mutex_new());
    rb_mutex_trylock(record->life);
  }
  describe(thread);
  at_work = false;
}

// What is raised here comes to the program as if it were a moment later.
static void on_thread_begin_or_end(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE klass) {
  (void)data, (void)self, (void)id, (void)klass;
  if (!nf_vm_on_main_ractor()) return;
  if (event == RUBY_EVENT_THREAD_BEGIN) main_ractor_thread_began();
  if (nf_vm_private()) return;
  VALUE thread = rb_thread_current();
  if (event == RUBY_EVENT_THREAD_BEGIN) {
    on_begin(thread);
  } else {
    thread_record *record = record_of(thread);
    if (record != NULL) record->ended = true;
  }
}

// Of a thread that was there before us, or was killed before it began, nobody says that it ends, and it may
// have no kernel id that could be asked for. So one that was there before the list and is not on it has
// ended.
static void expect_known(uint64_t look) {
  for (size_t i = 0; i < known_count; i++) {
    if (known[i].thread != Qfalse) known[i].record->missed = look;
  }
}

static void end_missed(uint64_t look) {
  for (size_t i = 0; i < known_count; i++) {
    if (known[i].thread == Qfalse || known[i].record->missed != look) continue;
    if (NIL_P(known[i].record->life)) known[i].record->ended = true;
  }
}

static void look_at_threads(void) {
  static uint64_t looks;
  uint64_t look = ++looks; // other threads may look meanwhile
  expect_known(look);
  VALUE list = rb_funcall(thread_list, rb_intern("call"), 0);
  for (long i = 0; i < RARRAY_LEN(list); i++) {
    VALUE thread = RARRAY_AREF(list, i);
    describe(thread);
    thread_record *record = record_of(thread);
    if (record != NULL) record->missed = 0;
    if (record != NULL && lives(thread, record) && !is_known(record)) add_known(thread, record);
    set_candidate((size_t)i, nf_vm_thread_tid((nf_vm_thread *)thread));
  }
  end_missed(look);
  drop_ended();
  RB_GC_GUARD(list);
}

// Thread#name=, after which the record is brought up to date.
static VALUE set_name(VALUE self, VALUE name) {
  VALUE result = rb_call_super(1, &name);
  thread_record *record = nf_vm_on_main_ractor() ? record_of(self) : NULL;
  if (record != NULL) record->name = rb_funcall(self, rb_intern("name"), 0);
  return result;
}

static void watch_names(void) {
  static bool watching = false;
  if (watching) return;
  watching = true;
  VALUE profiling = rb_define_module_under(rb_define_module("Datadog"), "Profiling");
  VALUE names = rb_define_module_under(profiling, "ThreadNames");
#ifdef HAVE_RB_EXT_RACTOR_SAFE
  rb_ext_ractor_safe(true); // of the method that is defined here; other Ractors name their threads, too
#endif
  rb_define_method(names, "name=", set_name, 1);
#ifdef HAVE_RB_EXT_RACTOR_SAFE
  rb_ext_ractor_safe(false);
#endif
  rb_prepend_module(rb_cThread, names);
}

void nf_vm_look_at_threads(void) {
  watch_names();
  look_at_threads();
}

static VALUE adopt_current(VALUE unused) {
  (void)unused;
  return adopt(rb_thread_current()) == NULL ? Qfalse : Qtrue;
}

void nf_vm_each_thread(void (*each)(nf_vm_thread *thread, void *data), void *data) {
  if (record_of(rb_thread_current()) == NULL) { // one that C code has started may have begun without a word
    VALUE error = rb_errinfo();
    int raised = 0;
    rb_protect(adopt_current, Qnil, &raised);
    if (raised) rb_set_errinfo(error); // no memory; at the next sample, perhaps
  }
  size_t candidate = 0;
  // None is added meanwhile, as no other thread runs.
  for (size_t i = 0; i < known_count; i++) {
    nf_vm_thread *thread = (nf_vm_thread *)known[i].thread;
    if (known[i].thread == Qfalse || !nf_vm_thread_alive(thread)) continue;
    set_candidate(candidate++, nf_vm_thread_tid(thread));
    each(thread, data);
  }
  while (candidate < CANDIDATES) set_candidate(candidate++, 0);
}

nf_vm_thread *nf_vm_current_thread(void) { return (nf_vm_thread *)rb_thread_current(); }

nf_vm_thread *nf_vm_thread_from(VALUE thread) {
  if (!RTEST(rb_obj_is_kind_of(thread, rb_cThread))) {
    rb_raise(rb_eTypeError, "wrong argument type %" PRIsVALUE " (expected VM/thread)", rb_obj_class(thread));
  }
  describe(thread);
  return (nf_vm_thread *)thread;
}

VALUE nf_vm_thread_object(const nf_vm_thread *thread) { return thread_of(thread); }

pthread_t nf_vm_thread_pthread(const nf_vm_thread *thread) {
  return thread_of(thread) == rb_thread_current() ? pthread_self() : (pthread_t)0;
}

pid_t nf_vm_thread_tid(const nf_vm_thread *thread) {
  if (thread_of(thread) == rb_thread_current()) return (pid_t)syscall(SYS_gettid);
  if (thread_of(thread) == rb_thread_main()) return getpid(); // in a new child, whoever has forked it
  thread_record *record = record_of(thread_of(thread));
  return record != NULL && record->fork == forks ? record->tid : 0;
}

bool nf_vm_thread_alive(const nf_vm_thread *thread) {
  VALUE object = thread_of(thread);
  if (object == rb_thread_current()) return true;
  thread_record *record = record_of(object);
  if (record == NULL || !lives(object, record)) return false;
  // Before 3.1 one that was there before us may have been killed without a word.
  pid_t tid = NIL_P(record->life) ? nf_vm_thread_tid(thread) : 0;
  return tid == 0 || syscall(SYS_tgkill, getpid(), tid, 0) == 0;
}

VALUE nf_vm_thread_name(const nf_vm_thread *thread) {
  thread_record *record = record_of(thread_of(thread));
  return record != NULL && RB_TYPE_P(record->name, T_STRING) ? record->name : Qnil;
}

VALUE nf_vm_thread_fiber(const nf_vm_thread *thread) {
  (void)thread;
  return Qnil;
}

bool nf_vm_thread_birthplace(const nf_vm_thread *thread, VALUE *file, int *line) {
  thread_record *record = record_of(thread_of(thread));
  if (record == NULL || NIL_P(record->birth_file)) return false;
  *file = record->birth_file;
  *line = record->birth_line;
  return true;
}

bool nf_vm_thread_raising(const nf_vm_thread *thread) {
  (void)thread;
  return false;
}

// --- stacks ---

// Used with the GVL on the main Ractor only, and not across anything that could give it up.
static VALUE *frame_room;
static int *line_room;
static int room;

static bool make_room(int wanted) {
  if (wanted <= room) return true;
  VALUE *frames = realloc(frame_room, (size_t)wanted * sizeof(*frames));
  if (frames != NULL) frame_room = frames;
  int *lines = realloc(line_room, (size_t)wanted * sizeof(*lines));
  if (lines != NULL) line_room = lines;
  if (frames == NULL || lines == NULL) return false;
  room = wanted;
  return true;
}

static int raw_frames(VALUE thread) {
#if RUBY_API_VERSION_CODE >= 30300
  return rb_profile_thread_frames(thread, 0, room, frame_room, line_room);
#else
  return thread == rb_thread_current() ? rb_profile_frames(0, room, frame_room, line_room)
                                       : NF_VM_NO_RUBY_STACK;
#endif
}

static void set_text(VALUE string, const char **text, size_t *length) {
  bool known = !RB_SPECIAL_CONST_P(string) && RB_TYPE_P(string, T_STRING);
  *text = known ? RSTRING_PTR(string) : "";
  *length = known ? (size_t)RSTRING_LEN(string) : 0;
}

int nf_vm_stack_frames(const nf_vm_thread *thread, nf_vm_frame *frames, int limit, int *total) {
  *total = 0;
  int found = 0;
  // The whole stack, so that what does not fit can be counted.
  for (int wanted = limit < 1024 ? 1024 : limit + 1;; wanted = room * 2) {
    if (!make_room(wanted)) break;
    found = raw_frames(thread_of(thread));
    if (found < room) break;
  }
  // Older Rubies also show a frame of their own, which is below that of the program and nowhere.
  if (found > 0 && line_room[found - 1] == 0 && thread_of(thread) == rb_thread_main()) found--;
  if (found <= 0) return nf_vm_thread_alive(thread) ? NF_VM_NO_RUBY_STACK : 0;

  int kept = found < limit ? found : limit, natives_waiting = 0;
  for (int i = 0; i < found && (i < kept || natives_waiting > 0); i++) {
    VALUE path = rb_profile_frame_path(frame_room[i]);
    nf_vm_frame *frame = i < kept ? &frames[i] : NULL;
    if (frame != NULL) {
      frame->native = NIL_P(path);
      frame->function = NULL;
      frame->file = "";
      frame->file_length = 0;
      frame->line = 0;
    }
    if (NIL_P(path)) {
      if (frame == NULL) continue;
      VALUE name = rb_profile_frame_method_name(frame_room[i]);
      set_text(name, &frame->name, &frame->name_length);
      if (!RTEST(name)) { // an internal id, it has no text
        frame->name = "(unnamed)";
        frame->name_length = sizeof("(unnamed)") - 1;
      }
      natives_waiting++;
      continue;
    }
    const char *file;
    size_t file_length;
    set_text(path, &file, &file_length);
    for (int j = (frame ? i : kept) - 1; natives_waiting > 0; j--, natives_waiting--) {
      frames[j].file = file;
      frames[j].file_length = file_length;
      frames[j].line = line_room[i];
    }
    if (frame == NULL) continue;
    set_text(rb_profile_frame_base_label(frame_room[i]), &frame->name, &frame->name_length);
    frame->file = file;
    frame->file_length = file_length;
    frame->line = line_room[i];
  }
  *total = found;
  return kept;
}

// Before 3.3 a job wants the argument of the VM's deferred finalizer, which nobody public can tell. Without
// it that one may run a little later.
void *nf_vm_postponed_job_argument(void) { return NULL; }

// --- start and fork ---

void nf_vm_after_fork_in_child(void) {
  forks++;
  pid_t self = getpid();
  for (size_t i = 0; i < CANDIDATES; i++) set_candidate(i, i == 0 ? self : 0);
  if (atomic_load_explicit(&owner, memory_order_relaxed) != 0) {
    atomic_store_explicit(&owner, self, memory_order_relaxed);
  }
}

void nf_vm_public_init(void) {
  static bool done = false;
  if (done) return;
  set_candidate(0, getpid());
  record_key = rb_intern("__datadog_profiling_thread_record");
  rb_gc_register_address(&thread_list);
  rb_gc_register_mark_object(TypedData_Wrap_Struct(rb_cObject, &known_type, &known));
  thread_list = rb_obj_method(rb_cThread, ID2SYM(rb_intern("list")));
  rb_add_event_hook(on_thread_begin_or_end, RUBY_EVENT_THREAD_BEGIN | RUBY_EVENT_THREAD_END, Qnil);
#if RUBY_API_VERSION_CODE >= 30000
  main_ractor_key = rb_ractor_local_storage_ptr_newkey(&main_ractor_mark);
  rb_ractor_local_storage_ptr_set(main_ractor_key, &main_ractor_mark);
#endif
#if RUBY_API_VERSION_CODE >= 30200
  look_at_threads();
  main_ractor_thread_began();
  rb_internal_thread_add_event_hook(on_thread_event,
                                    RUBY_INTERNAL_THREAD_EVENT_RESUMED |
                                        RUBY_INTERNAL_THREAD_EVENT_SUSPENDED |
                                        RUBY_INTERNAL_THREAD_EVENT_EXITED,
                                    NULL);
#endif
  done = true;
}

const nf_vm_tier nf_vm_public_tier = NF_VM_TIER_TABLE;
