// A library that forwards to a right one but does one thing wrong, as NF_BROKEN says. The driver must find
// each: this is the test of the test. NF_BROKEN_FOR is the path of the right library.
#include <datadog/profiling.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

template <typename F> F Right(const char *name) {
  static void *library = dlopen(getenv("NF_BROKEN_FOR"), RTLD_LOCAL | RTLD_NOW);
  void *symbol = library ? dlsym(library, name) : nullptr;
  if (!symbol) {
    fprintf(stderr, "NF_BROKEN_FOR: %s\n", dlerror());
    abort();
  }
  return reinterpret_cast<F>(symbol);
}

bool Broken(const char *how) { return strcmp(getenv("NF_BROKEN"), how) == 0; }

} // namespace

#define RIGHT(function) static const auto right = Right<decltype(&function)>(#function)
#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void ddog_Error_drop(ddog_Error *error) {
  RIGHT(ddog_Error_drop);
  right(error);
}

EXPORT ddog_CharSlice ddog_Error_message(const ddog_Error *error) {
  RIGHT(ddog_Error_message);
  ddog_CharSlice message = right(error);
  if (Broken("message") && message.len > 60) message.len--;
  return message;
}

EXPORT ddog_prof_Profile_NewResult ddog_prof_Profile_new(ddog_prof_Slice_ValueType types,
                                                         const ddog_prof_Period *period,
                                                         const ddog_Timespec *start) {
  RIGHT(ddog_prof_Profile_new);
  return right(types, Broken("period") ? nullptr : period, start);
}

EXPORT void ddog_prof_Profile_drop(ddog_prof_Profile *profile) {
  RIGHT(ddog_prof_Profile_drop);
  right(profile);
}

EXPORT ddog_prof_Profile_Result ddog_prof_Profile_add(ddog_prof_Profile *profile, ddog_prof_Sample sample,
                                                      int64_t timestamp) {
  RIGHT(ddog_prof_Profile_add);
  std::vector<ddog_prof_Label> labels(sample.labels.ptr, sample.labels.ptr + sample.labels.len);
  std::vector<ddog_prof_Location> locations(sample.locations.ptr,
                                            sample.locations.ptr + sample.locations.len);
  if (Broken("unit"))
    for (ddog_prof_Label &label : labels)
      if (label.str.len == 0) label.num_unit = {nullptr, 0};
  if (Broken("frames") && locations.size() > 300) locations.pop_back();
  if (Broken("timestamp") && timestamp < 0) timestamp = -timestamp;
  if (Broken("crash") && labels.size() > 3) abort();
  if (Broken("address")) {
    // Believes that the same address holds the same text.
    static std::vector<std::pair<const char *, std::string>> seen;
    for (ddog_prof_Location &location : locations) {
      ddog_CharSlice &name = location.function.name;
      if (name.len == 0) continue;
      bool found = false;
      for (auto &entry : seen) {
        if (entry.first != name.ptr || entry.second.size() != name.len) continue;
        found = true;
        name.ptr = entry.second.data();
      }
      if (!found && seen.size() < 1000) seen.emplace_back(name.ptr, std::string(name.ptr, name.len));
    }
  }
  sample.labels.ptr = labels.data();
  sample.locations = {locations.data(), locations.size()};
  return right(profile, sample, timestamp);
}

EXPORT ddog_prof_Profile_Result ddog_prof_Profile_set_endpoint(ddog_prof_Profile *profile, uint64_t root_span,
                                                               ddog_CharSlice endpoint) {
  RIGHT(ddog_prof_Profile_set_endpoint);
  return right(profile, root_span & (Broken("endpoint") ? UINT32_MAX : UINT64_MAX), endpoint);
}

EXPORT ddog_prof_Profile_Result ddog_prof_Profile_add_endpoint_count(ddog_prof_Profile *profile,
                                                                     ddog_CharSlice endpoint, int64_t value) {
  RIGHT(ddog_prof_Profile_add_endpoint_count);
  return right(profile, endpoint, Broken("count") && value == 1 ? 2 : value);
}

EXPORT ddog_prof_Profile_Result ddog_prof_Profile_add_upscaling_rule_poisson(
    ddog_prof_Profile *profile, ddog_prof_Slice_Usize offsets, ddog_CharSlice label_name,
    ddog_CharSlice label_value, uintptr_t sum, uintptr_t count, uint64_t distance) {
  RIGHT(ddog_prof_Profile_add_upscaling_rule_poisson);
  return right(profile, offsets, label_name, label_value, sum, count,
               distance + (Broken("poisson") && distance > 5));
}

EXPORT ddog_prof_Profile_Result ddog_prof_Profile_add_upscaling_rule_proportional(
    ddog_prof_Profile *profile, ddog_prof_Slice_Usize offsets, ddog_CharSlice label_name,
    ddog_CharSlice label_value, uint64_t sampled, uint64_t real) {
  RIGHT(ddog_prof_Profile_add_upscaling_rule_proportional);
  return right(profile, offsets, label_name, label_value, sampled, real);
}

EXPORT ddog_prof_Profile_SerializeResult ddog_prof_Profile_serialize(ddog_prof_Profile *profile,
                                                                     const ddog_Timespec *end,
                                                                     const int64_t *duration,
                                                                     const ddog_Timespec *start) {
  RIGHT(ddog_prof_Profile_serialize);
  if (Broken("duration") && duration && *duration == 0) duration = nullptr;
  return right(profile, end, duration, start);
}

EXPORT void ddog_prof_EncodedProfile_drop(ddog_prof_EncodedProfile *profile) {
  RIGHT(ddog_prof_EncodedProfile_drop);
  right(profile);
}

EXPORT ddog_prof_Profile_Result ddog_prof_Profile_reset(ddog_prof_Profile *profile,
                                                        const ddog_Timespec *start) {
  RIGHT(ddog_prof_Profile_reset);
  return Broken("reset") ? ddog_prof_Profile_Result{DDOG_PROF_PROFILE_RESULT_OK, {{true}}}
                         : right(profile, start);
}

EXPORT ddog_Endpoint ddog_Endpoint_agent(ddog_CharSlice url) {
  RIGHT(ddog_Endpoint_agent);
  return right(url);
}

EXPORT ddog_prof_Exporter_NewResult ddog_prof_Exporter_new(ddog_CharSlice name, ddog_CharSlice version,
                                                           ddog_CharSlice family, const ddog_Vec_Tag *tags,
                                                           ddog_Endpoint endpoint) {
  RIGHT(ddog_prof_Exporter_new);
  return right(name, version, family, tags, endpoint);
}

EXPORT void ddog_prof_Exporter_drop(ddog_prof_Exporter *exporter) {
  RIGHT(ddog_prof_Exporter_drop);
  right(exporter);
}

EXPORT ddog_prof_Exporter_Request_BuildResult ddog_prof_Exporter_Request_build(
    ddog_prof_Exporter *exporter, ddog_Timespec start, ddog_Timespec end,
    ddog_prof_Exporter_Slice_File compress, ddog_prof_Exporter_Slice_File unmodified,
    const ddog_Vec_Tag *tags, const ddog_prof_ProfiledEndpointsStats *stats, const ddog_CharSlice *internal,
    const ddog_CharSlice *info, uint64_t timeout_ms) {
  RIGHT(ddog_prof_Exporter_Request_build);
  return right(exporter, start, end, compress, unmodified, tags, stats, internal, info, timeout_ms);
}

EXPORT ddog_prof_Exporter_SendResult ddog_prof_Exporter_send(ddog_prof_Exporter *exporter,
                                                             ddog_prof_Exporter_Request **request,
                                                             const ddog_CancellationToken *cancel) {
  RIGHT(ddog_prof_Exporter_send);
  return right(exporter, request, cancel);
}
