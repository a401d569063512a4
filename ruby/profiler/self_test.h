#ifndef NF_SELF_TEST_H
#define NF_SELF_TEST_H

#include <ruby.h>

// Compares what private_vm_access reads out of the VM with what Ruby's public methods say. Returns nil, or a
// String that says what differs: then profiling must stay off, as this is not the Ruby that the extension was
// built for. May raise.
VALUE nf_self_test(void);

#endif
