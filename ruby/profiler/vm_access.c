// Which of the two ways into the VM is used; see vm_tier.h.

#include "vm_tier.h"

#include <ruby/version.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int ruby_native_thread_p(void);

static const nf_vm_tier *tier = &nf_vm_public_tier;
static bool mismatch;
static char why_public[512] =
    "when the profiler was built there was no header of this Ruby's inside that it knows and the compiler "
    "could read";

#define ANSWER(type, name, parameters, arguments)                                                            \
  type nf_vm_##name parameters { return tier->name arguments; }
#define NOTHING(name, parameters, arguments)                                                                 \
  void nf_vm_##name parameters { tier->name arguments; }
NF_VM_TIER_FUNCTIONS(ANSWER, NOTHING)

const char *nf_vm_built_for(void) { return NF_RUBY_VERSION; }

void nf_vm_access_init(void) {
  nf_vm_public_init();
#ifdef NF_VM_PRIVATE_TIER
  const char *wanted = getenv("DD_PROFILING_VM_ACCESS");
  if (wanted != NULL && strcmp(wanted, "public") == 0) {
    snprintf(why_public, sizeof(why_public), "DD_PROFILING_VM_ACCESS=public asks for it");
    return;
  }
  const char *reason = nf_vm_private_init();
  if (reason == NULL) {
    tier = &nf_vm_private_tier;
  } else {
    nf_vm_use_public_tier(reason);
  }
#endif
}

bool nf_vm_private(void) { return tier != &nf_vm_public_tier; }

bool nf_vm_mismatch(void) { return mismatch; }

void nf_vm_use_public_tier(const char *reason) {
  tier = &nf_vm_public_tier;
  mismatch = true;
  snprintf(why_public, sizeof(why_public), "%s", reason);
}

const char *nf_vm_why_public(void) { return nf_vm_private() ? NULL : why_public; }

// What the public functions of this Ruby can tell.
bool nf_vm_sees_other_stacks(void) { return nf_vm_private() || RUBY_API_VERSION_CODE >= 30300; }
bool nf_vm_knows_gvl_owner(void) { return nf_vm_private() || RUBY_API_VERSION_CODE >= 30200; }
bool nf_vm_knows_thread_ids(void) { return nf_vm_private() || RUBY_API_VERSION_CODE >= 30100; }

bool nf_vm_may_hold_gvl(void) {
  return nf_vm_knows_gvl_owner() ? nf_vm_holds_gvl() : ruby_native_thread_p() && nf_vm_on_main_ractor();
}
