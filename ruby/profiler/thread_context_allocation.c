// The sample of an allocation.

#include "thread_context_internal.h"

#include "allocation_class.h"

// Those of the thread, ruby vm type, allocation class.
#define MAX_LABELS (NF_THREAD_LABELS_MAX + 2)

void nf_thread_context_skip_allocations(nf_thread_context *context, uint64_t count) {
  nf_failure failure;
  if (count == 0 || !nf_thread_context_ready(context, &failure)) return;
  nf_sample_values values = {{0}};
  values.value[NF_VALUE_ALLOC_SAMPLES] = (int64_t)count;
  ddog_prof_Label labels[] = {
      nf_text_label(NF_SLICE("thread id"), NF_SLICE("SS")),
      nf_text_label(NF_SLICE("thread name"), NF_SLICE("Skipped Samples")),
      nf_text_label(NF_SLICE("allocation class"), NF_SLICE("(Skipped Samples)")),
  };
  nf_stack_collector_sample_text(context->stack, NF_SLICE("Skipped Samples"), context->recorder, &values,
                                 labels, sizeof(labels) / sizeof(labels[0]), 0, &failure);
}

nf_allocation_result nf_thread_context_sample_allocation(nf_thread_context *context, VALUE object,
                                                         uint64_t weight, nf_failure *failure) {
  if (!nf_thread_context_ready(context, failure)) return NF_ALLOCATION_FAILED;
  nf_vm_thread *current = nf_vm_current_thread();
  nf_thread_entry *entry = nf_thread_table_find(&context->threads, nf_vm_thread_object(current));
  if (entry == NULL) return NF_ALLOCATION_OF_UNKNOWN_THREAD;

  uint64_t skipped = weight > NF_ALLOCATION_WEIGHT_MAX ? weight - NF_ALLOCATION_WEIGHT_MAX : 0;
  nf_sample_values values = {{0}};
  values.value[NF_VALUE_ALLOC_SAMPLES] = (int64_t)(weight - skipped);
  ddog_prof_Label labels[MAX_LABELS];
  size_t count = nf_thread_context_labels(context, entry, labels);
  nf_allocation_class class;
  nf_allocation_class_of(object, &class);
  labels[count++] = nf_text_label(NF_SLICE("ruby vm type"), class.vm_type);
  if (context->allocation_type_enabled) {
    labels[count++] = nf_text_label(NF_SLICE("allocation class"), class.name);
  }
  // What the recorder refuses is lost, and counted there; sampling goes on.
  if (!class.internal) {
    nf_stack_recorder_track_next(context->recorder, object, weight,
                                 context->allocation_type_enabled ? class.name : NF_SLICE(""));
  }
  nf_failure refusal;
  nf_stack_collector_sample(context->stack, current, context->recorder, &values, labels, count, NULL, 0,
                            &refusal);
  nf_stack_recorder_track_next(context->recorder, 0, 0, NF_SLICE(""));
  nf_thread_context_skip_allocations(context, skipped);
  return NF_ALLOCATION_SAMPLED;
}

void nf_thread_context_watch_objects(nf_thread_context *context, bool watch) {
  nf_stack_recorder_watch_objects(context->recorder, watch);
}

void nf_thread_context_see_current(nf_thread_context *context) {
  nf_failure failure;
  if (nf_thread_context_ready(context, &failure)) nf_thread_context_entry_of(context, nf_vm_current_thread());
}

// --- test door ---

static VALUE testing_sample_allocation(VALUE self, VALUE object, VALUE weight, VALUE new_object) {
  (void)self;
  nf_thread_context *context = nf_thread_context_from(object);
  unsigned long long count = NUM2ULL(weight);
  if (RB_SPECIAL_CONST_P(new_object)) rb_raise(rb_eArgError, "%" PRIsVALUE " is not allocated", new_object);
  nf_thread_context_see_current(context);
  nf_failure failure;
  if (nf_thread_context_sample_allocation(context, new_object, count, &failure) == NF_ALLOCATION_FAILED) {
    rb_raise(rb_eRuntimeError, "%s", failure.text);
  }
  return Qtrue;
}

void nf_thread_context_define_allocation_testing(VALUE testing) {
  rb_define_singleton_method(testing, "_native_sample_allocation", testing_sample_allocation, 3);
}
