#ifndef NF_NATIVE_FILES_H
#define NF_NATIVE_FILES_H

// Which library a C function lives in. Asking the dynamic linker is slow, so answers are kept. Plain heap
// only.

#include "ruby_helpers.h"

#include <stddef.h>

typedef struct nf_native_files nf_native_files;

nf_native_files *nf_native_files_new(void); // NULL: no memory
void nf_native_files_drop(nf_native_files *files);
size_t nf_native_files_size(const nf_native_files *files);

// Path of the library as it was loaded; empty when the linker knows of none. The text lives as long as
// `files`.
ddog_CharSlice nf_native_files_of(nf_native_files *files, const void *function);

#endif
