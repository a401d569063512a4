#include "idle_sampling_helper.h"

#include "private_vm_access.h"
#include "ruby_helpers.h"

#include <ruby/thread.h>

#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef enum helper_state { HELPER_OFF, HELPER_WAITING, HELPER_STOPPING } helper_state;

// No lock, as a signal handler cannot take one: whoever changes something posts `wake` after it.
struct nf_idle_helper {
  sem_t wake;
  _Atomic helper_state state;
  _Atomic bool interrupted;       // by the VM, which wants to look at the thread's interrupts
  nf_idle_action *_Atomic action; // asked for, until it is done; NULL: none
  nf_idle_helper *next_spare;
};

// A signal handler may be about to wake up a helper whose object is gone, so their memory is kept for the
// next. Changed with the GVL of the main Ractor, or in a garbage collection.
static nf_idle_helper *spare;

static void helper_free(void *data) { // a thread that uses it keeps the object alive
  nf_idle_helper *helper = data;
  if (helper == NULL) return;
  helper->next_spare = spare;
  spare = helper;
}

static size_t helper_size(const void *data) { return data == NULL ? 0 : sizeof(nf_idle_helper); }

static const rb_data_type_t helper_type = {
    .wrap_struct_name = "Datadog::Profiling::Collectors::IdleSamplingHelper",
    .function = {.dfree = helper_free, .dsize = helper_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static void set_up(nf_idle_helper *helper) {
  sem_init(&helper->wake, 0, 0); // cannot fail with this count on Linux
  atomic_store(&helper->action, NULL);
  atomic_store(&helper->interrupted, false);
  atomic_store(&helper->state, HELPER_OFF);
}

static VALUE helper_allocate(VALUE klass) {
  VALUE object = TypedData_Wrap_Struct(klass, &helper_type, NULL);
  nf_idle_helper *helper = nf_vm_on_main_ractor() ? spare : NULL;
  if (helper != NULL) {
    spare = helper->next_spare;
  } else if ((helper = calloc(1, sizeof(*helper))) == NULL) {
    rb_memerror();
  }
  set_up(helper);
  DATA_PTR(object) = helper;
  return object;
}

nf_idle_helper *nf_idle_helper_from(VALUE object) {
  nf_idle_helper *helper;
  TypedData_Get_Struct(object, nf_idle_helper, &helper_type, helper);
  return helper;
}

bool nf_idle_helper_request(nf_idle_helper *helper, nf_idle_action *action) {
  if (atomic_load(&helper->state) != HELPER_WAITING) return false;
  nf_idle_action *none = NULL;
  if (!atomic_compare_exchange_strong(&helper->action, &none, action)) return false;
  sem_post(&helper->wake);
  return true;
}

static void set_state(nf_idle_helper *helper, helper_state state) {
  atomic_store(&helper->state, state);
  sem_post(&helper->wake);
}

static void interrupt(void *data) {
  nf_idle_helper *helper = data;
  atomic_store(&helper->interrupted, true);
  sem_post(&helper->wake);
}

static void *wait_and_run(void *data) {
  nf_idle_helper *helper = data;
  for (;;) {
    nf_idle_action *action;
    for (;;) {
      if (atomic_load(&helper->state) != HELPER_WAITING || atomic_load(&helper->interrupted)) return NULL;
      action = atomic_load(&helper->action);
      if (action != NULL) break;
      sem_wait(&helper->wake); // or a signal: looks again
    }
    action(); // takes the GVL, so it may not come back: an exception can jump over us
    atomic_store(&helper->action, NULL);
  }
}

// False once it has been told to stop.
static bool get_ready(nf_idle_helper *helper) {
  atomic_store(&helper->interrupted, false);
  helper_state off = HELPER_OFF;
  atomic_compare_exchange_strong(&helper->state, &off, HELPER_WAITING);
  return atomic_load(&helper->state) != HELPER_STOPPING;
}

static VALUE run_loop(VALUE data) {
  nf_idle_helper *helper = (nf_idle_helper *)data;
  while (get_ready(helper)) rb_thread_call_without_gvl(wait_and_run, helper, interrupt, helper);
  return Qtrue;
}

static VALUE turn_off(VALUE data) {
  nf_idle_helper *helper = (nf_idle_helper *)data;
  set_state(helper, HELPER_OFF);
  atomic_store(&helper->action, NULL);
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

// Before the thread starts: a fork may have copied what was asked of a thread that does not exist here.
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
