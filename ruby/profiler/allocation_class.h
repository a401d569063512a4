#ifndef NF_ALLOCATION_CLASS_H
#define NF_ALLOCATION_CLASS_H

// What a new object is, as two labels: the VM's type of it, and its class.
//
// For use in the middle of an allocation, when the object is only half made: no Ruby object is made, no Ruby
// method is called, nothing is raised. So a class without a name is given the text that Ruby would make up,
// but not by Ruby.

#include "ruby_helpers.h"

#include <stdbool.h>

typedef struct nf_allocation_class {
  ddog_CharSlice vm_type; // "T_STRING"
  ddog_CharSlice name;    // "String"; borrowed from the class, or from `buffer`
  bool internal;          // an object that Ruby code never gets to see
  char buffer[48];
} nf_allocation_class;

// Points into itself, so it must not be copied.
void nf_allocation_class_of(VALUE object, nf_allocation_class *result);

#endif
