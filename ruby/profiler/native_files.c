#define _GNU_SOURCE // dladdr
#include "native_files.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define ANSWERS 1024 // functions that are remembered; each address has one place
#define MOST_LIBRARIES 4096

typedef struct answer {
  const void *function;
  ddog_CharSlice library;
} answer;

struct nf_native_files {
  answer answers[ANSWERS];
  char **libraries; // own copies: the linker's names end with their libraries
  size_t count, text_size;
};

nf_native_files *nf_native_files_new(void) { return calloc(1, sizeof(nf_native_files)); }

void nf_native_files_drop(nf_native_files *files) {
  if (files == NULL) return;
  for (size_t i = 0; i < files->count; i++) free(files->libraries[i]);
  free(files->libraries);
  free(files);
}

size_t nf_native_files_size(const nf_native_files *files) {
  return files == NULL ? 0 : sizeof(*files) + files->count * sizeof(*files->libraries) + files->text_size;
}

static ddog_CharSlice keep(nf_native_files *files, const char *name) {
  size_t length = strlen(name);
  for (size_t i = 0; i < files->count; i++) {
    if (strcmp(files->libraries[i], name) == 0) return nf_slice_of_text(files->libraries[i], length);
  }
  if (files->count == MOST_LIBRARIES) return NF_SLICE("");
  char **libraries = realloc(files->libraries, (files->count + 1) * sizeof(*libraries));
  if (libraries == NULL) return NF_SLICE("");
  files->libraries = libraries;
  char *copy = nf_copy_of_text(name);
  if (copy == NULL) return NF_SLICE("");
  libraries[files->count++] = copy;
  files->text_size += length + 1;
  return nf_slice_of_text(copy, length);
}

static ddog_CharSlice ask(nf_native_files *files, const void *function) {
  Dl_info info;
  if (dladdr(function, &info) == 0 || info.dli_fname == NULL) return NF_SLICE("");
  return keep(files, info.dli_fname);
}

ddog_CharSlice nf_native_files_of(nf_native_files *files, const void *function) {
  if (function == NULL) return NF_SLICE("");
  size_t place = ((uintptr_t)function >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 54; // 10 bits
  answer *answer = &files->answers[place % ANSWERS];
  if (answer->function != function) {
    answer->library = ask(files, function);
    answer->function = function;
  }
  return answer->library;
}
