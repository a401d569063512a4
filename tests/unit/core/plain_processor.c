#include "tests/unit/core/plain_processor.h"

#include "core/profile.h"

bool plain_processor(ddog_prof_Profile *handle) {
  nf_profile *profile = (nf_profile *)(void *)handle->inner;
  bool changes = profile->write_stack != nf_write_stack;
  profile->write_stack = nf_write_stack;
  return changes;
}
