#include "tests/conformance/library.h"

#include <dlfcn.h>

namespace conformance {

std::string Library::Open(const std::string &new_name, const std::string &new_path) {
  name = new_name;
  path = new_path;
  void *handle = dlopen(path.c_str(), RTLD_LOCAL | RTLD_NOW);
  if (!handle) return dlerror();
#define CONFORMANCE_LOOK_UP(function)                                                                        \
  function = reinterpret_cast<decltype(function)>(dlsym(handle, #function));                                 \
  if (!function) return path + " has no " #function;
  CONFORMANCE_FUNCTIONS(CONFORMANCE_LOOK_UP)
#undef CONFORMANCE_LOOK_UP
#define CONFORMANCE_LOOK_UP(function)                                                                        \
  function = reinterpret_cast<decltype(function)>(dlsym(handle, #function));
  CONFORMANCE_OPTIONAL(CONFORMANCE_LOOK_UP)
#undef CONFORMANCE_LOOK_UP
  return "";
}

} // namespace conformance
