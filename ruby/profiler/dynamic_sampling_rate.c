#include "dynamic_sampling_rate.h"

#include "time_helpers.h"

#define LONGEST_GAP_NS (10 * NF_SECOND_NS) // one hiccup must not stop sampling for long
#define LONGEST_SLEEP_NS (100 * NF_MILLISECOND_NS)

void nf_sampling_rate_init(nf_sampling_rate *rate, double overhead_target_percentage) {
  rate->overhead_target_percentage = overhead_target_percentage;
  nf_sampling_rate_reset(rate);
}

void nf_sampling_rate_reset(nf_sampling_rate *rate) {
  atomic_store_explicit(&rate->next_sample_after_ns, 0, memory_order_relaxed);
}

// Relaxed is enough: the value stands alone, nothing else is read because of it.
static int64_t next_after(const nf_sampling_rate *rate) {
  return atomic_load_explicit(&rate->next_sample_after_ns, memory_order_relaxed);
}

bool nf_sampling_rate_due(const nf_sampling_rate *rate, int64_t now_ns) { return now_ns >= next_after(rate); }

int64_t nf_sampling_rate_sleep_ns(const nf_sampling_rate *rate, int64_t now_ns) {
  int64_t remaining = next_after(rate) - now_ns;
  if (remaining <= 0) return 0;
  return remaining < LONGEST_SLEEP_NS ? remaining : LONGEST_SLEEP_NS;
}

void nf_sampling_rate_after_sample(nf_sampling_rate *rate, int64_t finished_at_ns, int64_t took_ns) {
  double target = rate->overhead_target_percentage;
  double gap = (double)(took_ns > 0 ? took_ns : 0) * (100.0 - target) / target;
  int64_t gap_ns = gap < (double)LONGEST_GAP_NS ? (int64_t)gap : LONGEST_GAP_NS;
  atomic_store_explicit(&rate->next_sample_after_ns, finished_at_ns + gap_ns, memory_order_relaxed);
}

// --- test doors: each works on a rate of its own ---

static VALUE get_sleep(VALUE self, VALUE target, VALUE next_after_ns, VALUE now_ns) {
  (void)self;
  nf_sampling_rate rate;
  nf_sampling_rate_init(&rate, NUM2DBL(target));
  atomic_store(&rate.next_sample_after_ns, NUM2LL(next_after_ns));
  return LL2NUM(nf_sampling_rate_sleep_ns(&rate, NUM2LL(now_ns)));
}

static VALUE should_sample(VALUE self, VALUE target, VALUE next_after_ns, VALUE now_ns) {
  (void)self;
  nf_sampling_rate rate;
  nf_sampling_rate_init(&rate, NUM2DBL(target));
  atomic_store(&rate.next_sample_after_ns, NUM2LL(next_after_ns));
  return nf_sampling_rate_due(&rate, NUM2LL(now_ns)) ? Qtrue : Qfalse;
}

static VALUE after_sample(VALUE self, VALUE target, VALUE now_ns, VALUE took_ns) {
  (void)self;
  nf_sampling_rate rate;
  nf_sampling_rate_init(&rate, NUM2DBL(target));
  nf_sampling_rate_after_sample(&rate, NUM2LL(now_ns), NUM2LL(took_ns));
  return LL2NUM(next_after(&rate));
}

void nf_sampling_rate_define(VALUE collectors) {
  VALUE klass = rb_define_class_under(collectors, "DynamicSamplingRate", rb_cObject);
  VALUE testing = rb_define_module_under(klass, "Testing");
  rb_define_singleton_method(testing, "_native_get_sleep", get_sleep, 3);
  rb_define_singleton_method(testing, "_native_should_sample", should_sample, 3);
  rb_define_singleton_method(testing, "_native_after_sample", after_sample, 3);
}
