// One build of the v6 profiling library, opened by path. Two can be open side by side.
#pragma once

#include <datadog/profiling.h>

#include <string>

namespace conformance {

struct Library {
  std::string name;
  std::string path;

#define CONFORMANCE_FUNCTIONS(X)                                                                             \
  X(ddog_Error_drop)                                                                                         \
  X(ddog_Error_message)                                                                                      \
  X(ddog_prof_Profile_new)                                                                                   \
  X(ddog_prof_Profile_drop)                                                                                  \
  X(ddog_prof_Profile_add)                                                                                   \
  X(ddog_prof_Profile_set_endpoint)                                                                          \
  X(ddog_prof_Profile_add_endpoint_count)                                                                    \
  X(ddog_prof_Profile_add_upscaling_rule_poisson)                                                            \
  X(ddog_prof_Profile_add_upscaling_rule_proportional)                                                       \
  X(ddog_prof_Profile_serialize)                                                                             \
  X(ddog_prof_EncodedProfile_drop)                                                                           \
  X(ddog_prof_Profile_reset)

#define CONFORMANCE_MEMBER(function) decltype(&::function) function = nullptr;
  CONFORMANCE_FUNCTIONS(CONFORMANCE_MEMBER)
#undef CONFORMANCE_MEMBER

  // Null where a library has none: what sends, and what goes beyond version 6.
#define CONFORMANCE_OPTIONAL(X)                                                                              \
  X(ddog_Endpoint_agent)                                                                                     \
  X(ddog_prof_Exporter_new)                                                                                  \
  X(ddog_prof_Exporter_drop)                                                                                 \
  X(ddog_prof_Exporter_Request_build)                                                                        \
  X(ddog_prof_Exporter_send)                                                                                 \
  X(ddog_prof_Profile_serialize_as)
#define CONFORMANCE_MEMBER(function) decltype(&::function) function = nullptr;
  CONFORMANCE_OPTIONAL(CONFORMANCE_MEMBER)
#undef CONFORMANCE_MEMBER

  // "" or why it cannot be used.
  std::string Open(const std::string &name, const std::string &path);
};

} // namespace conformance
