#include "discrete_dynamic_sampler.h"

#include "random.h"
#include "ruby_helpers.h"
#include "time_helpers.h"

#define FIRST_INTERVAL 1
#define WINDOW_NS NF_SECOND_NS
#define WINDOW_SAMPLES 100
#define NEWEST_WEIGHT 0.6 // of a whole window in the averages

void nf_discrete_sampler_init(nf_discrete_sampler *sampler, double target_percentage, int64_t now_ns) {
  sampler->target = target_percentage;
  nf_discrete_sampler_reset(sampler, now_ns);
}

void nf_discrete_sampler_reset(nf_discrete_sampler *sampler, int64_t now_ns) {
  *sampler = (nf_discrete_sampler){
      .target = sampler->target,
      .probability = 1.0 / FIRST_INTERVAL,
      .interval = FIRST_INTERVAL,
      .gap = FIRST_INTERVAL,
      .random = (uint32_t)now_ns | 1,
      .sample_started_ns = now_ns,
      .window_started_ns = now_ns,
  };
}

// The weight of a sample is the gap before it, so whatever the gaps are, counts stay true on average.
static void choose_gap(nf_discrete_sampler *sampler) {
  uint64_t half = sampler->interval / 2;
  sampler->gap = sampler->interval - half + nf_random_next(&sampler->random) % (2 * half + 1);
}

// A short window counts for less.
static double share_of_window(int64_t window_ns) {
  return window_ns < WINDOW_NS ? (double)window_ns / (double)WINDOW_NS : 1.0;
}

static void add_to_average(double *average, bool *known, double value, double share, double first_weight) {
  double weight = *known ? NEWEST_WEIGHT * share : first_weight;
  *average = weight * value + (1.0 - weight) * *average;
  *known = true;
}

static double best_probability(const nf_discrete_sampler *sampler) {
  // Events pass unsampled in 1 - allowed of the time; that is when they come at their rate.
  double allowed = (sampler->target + sampler->adjustment) / 100.0;
  if (allowed <= 0) return 0;
  double cost_of_all = sampler->events_per_ns * sampler->sampling_ns * (1.0 - allowed);
  double probability = cost_of_all > 0 ? allowed / cost_of_all : 1.0;
  return probability < 1.0 ? probability : 1.0;
}

static void readjust(nf_discrete_sampler *sampler, int64_t now_ns, int64_t window_ns) {
  double window = (double)window_ns, share = share_of_window(window_ns);
  add_to_average(&sampler->events_per_ns, &sampler->has_events_average,
                 (double)sampler->window_events / window, share, 1.0);
  if (sampler->window_samples > 0) {
    // A sample that took long (the machine did something else) must not stop sampling for minutes.
    double longest = (double)WINDOW_NS * sampler->target / 100.0;
    double mean = (double)sampler->window_sampling_ns / (double)sampler->window_samples;
    if (mean > longest) {
      mean = longest;
      sampler->clamped_windows++;
    }
    add_to_average(&sampler->sampling_ns, &sampler->has_sampling_average, mean, share, 1.0);
  }
  double spent = 100.0 * (double)sampler->window_sampling_ns / window;
  double overshoot = spent > sampler->target ? spent - sampler->target : 0;
  if (overshoot > sampler->target) overshoot = sampler->target;
  // The first samples come in a burst, as nothing is known then; that must not count for a whole second.
  add_to_average(&sampler->adjustment, &sampler->has_adjustment, -overshoot, share, share);

  sampler->probability = best_probability(sampler);
  double interval = sampler->probability > 0 ? 1.0 / sampler->probability : 0;
  sampler->interval = interval < 1e18 ? (uint64_t)interval : 0;
  if ((double)sampler->interval < interval && sampler->interval > 0) sampler->interval++; // rounded up

  choose_gap(sampler);
  sampler->window_started_ns = now_ns;
  sampler->window_events = sampler->window_samples = 0;
  sampler->window_sampling_ns = 0;
}

static void readjust_if_due(nf_discrete_sampler *sampler, int64_t now_ns) {
  int64_t window_ns = now_ns - sampler->window_started_ns;
  // Clocks of different grain: a window may seem to have no length, and is then made longer.
  if (window_ns <= 0) return;
  if (window_ns >= WINDOW_NS || sampler->window_samples >= WINDOW_SAMPLES)
    readjust(sampler, now_ns, window_ns);
}

bool nf_discrete_sampler_due(nf_discrete_sampler *sampler, int64_t now_ns) {
  sampler->events_since_sample++;
  sampler->window_events++;
  if (sampler->interval > 0 && sampler->events_since_sample >= sampler->gap) return true;
  readjust_if_due(sampler, now_ns);
  return false;
}

void nf_discrete_sampler_start(nf_discrete_sampler *sampler, int64_t now_ns) {
  sampler->sample_started_ns = now_ns;
}

uint64_t nf_discrete_sampler_finish(nf_discrete_sampler *sampler, int64_t now_ns) {
  uint64_t weight = sampler->events_since_sample;
  sampler->events_since_sample = 0;
  sampler->window_samples++;
  int64_t took = now_ns - sampler->sample_started_ns;
  sampler->window_sampling_ns += took > 0 ? took : 0;
  choose_gap(sampler);
  readjust_if_due(sampler, now_ns);
  return weight;
}

uint64_t nf_discrete_sampler_rest(const nf_discrete_sampler *sampler) { return sampler->events_since_sample; }

static void set(VALUE hash, const char *key, VALUE value) {
  rb_hash_aset(hash, ID2SYM(rb_intern(key)), value);
}

VALUE nf_discrete_sampler_snapshot(const nf_discrete_sampler *sampler) {
  double longest = (double)WINDOW_NS * sampler->target / 100.0;
  VALUE hash = rb_hash_new();
  set(hash, "target_overhead", DBL2NUM(sampler->target));
  set(hash, "target_overhead_adjustment", DBL2NUM(sampler->adjustment));
  set(hash, "events_per_sec", DBL2NUM(sampler->events_per_ns * 1e9));
  set(hash, "sampling_time_ns", DBL2NUM(sampler->sampling_ns));
  set(hash, "sampling_interval", ULL2NUM(sampler->interval));
  set(hash, "sampling_probability", DBL2NUM(sampler->probability * 100.0));
  set(hash, "events_since_last_readjustment", ULL2NUM(sampler->window_events));
  set(hash, "samples_since_last_readjustment", ULL2NUM(sampler->window_samples));
  set(hash, "max_sampling_time_ns", ULL2NUM((unsigned long long)longest));
  set(hash, "sampling_time_clamps", ULL2NUM(sampler->clamped_windows));
  return hash;
}

// --- test door: a sampler with a clock of the test's ---

static const rb_data_type_t sampler_type = {
    .wrap_struct_name = "Datadog::Profiling::Collectors::DiscreteDynamicSampler::Testing::Sampler",
    .function = {.dfree = RUBY_DEFAULT_FREE},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE sampler_allocate(VALUE klass) {
  nf_discrete_sampler *sampler;
  VALUE object = TypedData_Make_Struct(klass, nf_discrete_sampler, &sampler_type, sampler);
  nf_discrete_sampler_init(sampler, 1.0, 0);
  return object;
}

static nf_discrete_sampler *sampler_from(VALUE object) {
  nf_discrete_sampler *sampler;
  TypedData_Get_Struct(object, nf_discrete_sampler, &sampler_type, sampler);
  return sampler;
}

static VALUE native_reset(VALUE self, VALUE now_ns) {
  nf_discrete_sampler_reset(sampler_from(self), NUM2LL(now_ns));
  return self;
}

static VALUE native_set_target(VALUE self, VALUE percentage, VALUE now_ns) {
  double target = NUM2DBL(percentage);
  if (!(target > 0 && target <= 100)) {
    rb_raise(rb_eArgError, "the overhead target must be more than 0 and at most 100 percent (got %g)",
             target);
  }
  nf_discrete_sampler_init(sampler_from(self), target, NUM2LL(now_ns));
  return self;
}

static VALUE native_should_sample(VALUE self, VALUE now_ns) {
  nf_discrete_sampler *sampler = sampler_from(self);
  int64_t now = NUM2LL(now_ns);
  if (!nf_discrete_sampler_due(sampler, now)) return Qfalse;
  nf_discrete_sampler_start(sampler, now);
  return Qtrue;
}

static VALUE native_after_sample(VALUE self, VALUE now_ns) {
  return ULL2NUM(nf_discrete_sampler_finish(sampler_from(self), NUM2LL(now_ns)));
}

static VALUE native_snapshot(VALUE self) { return nf_discrete_sampler_snapshot(sampler_from(self)); }

void nf_discrete_sampler_define(VALUE collectors) {
  VALUE klass = rb_define_class_under(collectors, "DiscreteDynamicSampler", rb_cObject);
  VALUE testing = rb_define_module_under(klass, "Testing");
  VALUE sampler = rb_define_class_under(testing, "Sampler", rb_cObject);
  rb_define_alloc_func(sampler, sampler_allocate);
  rb_define_method(sampler, "initialize", native_reset, 1);
  rb_define_method(sampler, "_native_reset", native_reset, 1);
  rb_define_method(sampler, "_native_set_overhead_target_percentage", native_set_target, 2);
  rb_define_method(sampler, "_native_should_sample", native_should_sample, 1);
  rb_define_method(sampler, "_native_after_sample", native_after_sample, 1);
  rb_define_method(sampler, "_native_state_snapshot", native_snapshot, 0);
}
