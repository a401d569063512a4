#ifndef NF_SELF_TEST_H
#define NF_SELF_TEST_H

#include <ruby.h>

// Compares what private_vm_access reads out of the VM with what Ruby's public methods say. Where they differ
// the first time, this is not the Ruby that the private tier was built for, and the public tier takes its
// place (see nf_vm_why_public). Returns nil, or a String that says why profiling must stay off. May raise.
VALUE nf_self_test(void);

#endif
