#include "idle_sampling_helper.h"

#include "ruby_helpers.h"

#include <ruby/thread.h>

#include <pthread.h>

typedef enum helper_state { HELPER_OFF, HELPER_WAITING, HELPER_REQUESTED, HELPER_STOPPING } helper_state;

struct nf_idle_helper {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  helper_state state;
  bool interrupted; // by the VM, which wants to look at the thread's interrupts
  void (*action)(void);
};

static void helper_free(void *data) { ruby_xfree(data); } // a thread that uses it keeps the object alive

static size_t helper_size(const void *data) {
  (void)data;
  return sizeof(nf_idle_helper);
}

static const rb_data_type_t helper_type = {
    .wrap_struct_name = "Datadog::Profiling::Collectors::IdleSamplingHelper",
    .function = {.dfree = helper_free, .dsize = helper_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static void set_up(nf_idle_helper *helper) {
  pthread_mutex_init(&helper->lock, NULL); // neither can fail with default attributes on Linux
  pthread_cond_init(&helper->changed, NULL);
  helper->state = HELPER_OFF;
  helper->action = NULL;
  helper->interrupted = false;
}

static VALUE helper_allocate(VALUE klass) {
  nf_idle_helper *helper;
  VALUE object = TypedData_Make_Struct(klass, nf_idle_helper, &helper_type, helper);
  set_up(helper);
  return object;
}

nf_idle_helper *nf_idle_helper_from(VALUE object) {
  nf_idle_helper *helper;
  TypedData_Get_Struct(object, nf_idle_helper, &helper_type, helper);
  return helper;
}

bool nf_idle_helper_request(nf_idle_helper *helper, void (*action)(void)) {
  pthread_mutex_lock(&helper->lock);
  bool accepted = helper->state == HELPER_WAITING;
  if (accepted) {
    helper->state = HELPER_REQUESTED;
    helper->action = action;
    pthread_cond_signal(&helper->changed);
  }
  pthread_mutex_unlock(&helper->lock);
  return accepted;
}

static void set_state(nf_idle_helper *helper, helper_state state) {
  pthread_mutex_lock(&helper->lock);
  helper->state = state;
  pthread_cond_signal(&helper->changed);
  pthread_mutex_unlock(&helper->lock);
}

static void interrupt(void *data) {
  nf_idle_helper *helper = data;
  pthread_mutex_lock(&helper->lock);
  helper->interrupted = true;
  pthread_cond_signal(&helper->changed);
  pthread_mutex_unlock(&helper->lock);
}

static void *wait_and_run(void *data) {
  nf_idle_helper *helper = data;
  for (;;) {
    pthread_mutex_lock(&helper->lock);
    while (helper->state == HELPER_WAITING && !helper->interrupted) {
      pthread_cond_wait(&helper->changed, &helper->lock);
    }
    bool run = helper->state == HELPER_REQUESTED && !helper->interrupted;
    void (*action)(void) = helper->action;
    pthread_mutex_unlock(&helper->lock);
    if (!run) return NULL;

    action(); // takes the GVL, so it may not come back: an exception can jump over us. No lock is held here.

    pthread_mutex_lock(&helper->lock);
    if (helper->state == HELPER_REQUESTED) helper->state = HELPER_WAITING;
    pthread_mutex_unlock(&helper->lock);
  }
}

// False once it has been told to stop.
static bool get_ready(nf_idle_helper *helper) {
  pthread_mutex_lock(&helper->lock);
  helper->interrupted = false;
  if (helper->state == HELPER_OFF) helper->state = HELPER_WAITING;
  bool go_on = helper->state != HELPER_STOPPING;
  pthread_mutex_unlock(&helper->lock);
  return go_on;
}

static VALUE run_loop(VALUE data) {
  nf_idle_helper *helper = (nf_idle_helper *)data;
  while (get_ready(helper)) rb_thread_call_without_gvl(wait_and_run, helper, interrupt, helper);
  return Qtrue;
}

static VALUE turn_off(VALUE data) {
  set_state((nf_idle_helper *)data, HELPER_OFF);
  return Qnil;
}

static VALUE native_idle_sampling_loop(VALUE self, VALUE object) {
  (void)self;
  nf_idle_helper *helper = nf_idle_helper_from(object);
  rb_ensure(run_loop, (VALUE)helper, turn_off, (VALUE)helper);
  RB_GC_GUARD(object);
  return Qtrue;
}

static VALUE native_stop(VALUE self, VALUE object) {
  (void)self;
  set_state(nf_idle_helper_from(object), HELPER_STOPPING);
  return Qtrue;
}

// Before the thread starts: a fork may have copied the lock in the hands of a thread that does not exist
// here.
static VALUE native_reset(VALUE self, VALUE object) {
  (void)self;
  set_up(nf_idle_helper_from(object));
  return Qtrue;
}

static void *call_testing_action(void *data) {
  (void)data;
  rb_funcall(rb_gv_get("$idle_sampling_helper_testing_action"), rb_intern("call"), 0);
  return NULL;
}

static void testing_action(void) { rb_thread_call_with_gvl(call_testing_action, NULL); }

static VALUE testing_request_action(VALUE self, VALUE object) {
  (void)self;
  return nf_idle_helper_request(nf_idle_helper_from(object), testing_action) ? Qtrue : Qfalse;
}

void nf_idle_helper_define(VALUE collectors) {
  VALUE klass = rb_define_class_under(collectors, "IdleSamplingHelper", rb_cObject);
  rb_define_alloc_func(klass, helper_allocate);
  rb_define_singleton_method(klass, "_native_idle_sampling_loop", native_idle_sampling_loop, 1);
  rb_define_singleton_method(klass, "_native_stop", native_stop, 1);
  rb_define_singleton_method(klass, "_native_reset", native_reset, 1);
  VALUE testing = rb_define_module_under(klass, "Testing");
  rb_define_singleton_method(testing, "_native_idle_sampling_helper_request_action", testing_request_action,
                             1);
}
