#include "tests/fuzz/memory.h"

#include "core/alloc.h"

namespace fuzz {

namespace {

size_t left = kNever;
bool failed;

bool Refuse() {
  if (left == kNever) return false;
  if (left > 0) {
    left--;
    return false;
  }
  failed = true;
  return true;
}

} // namespace

void FailMemoryAfter(size_t n) {
  left = n;
  failed = false;
}

bool MemoryFailed() { return failed; }

} // namespace fuzz

extern "C" {

void *__real_nf_alloc(size_t size);
void *__real_nf_alloc_zeroed(size_t size);
void *__real_nf_realloc(void *block, size_t size);
void *__real_nf_pages_alloc(size_t size);
void *__real_nf_pages_realloc(void *block, size_t old_size, size_t size);

void *__wrap_nf_alloc(size_t size) { return fuzz::Refuse() ? nullptr : __real_nf_alloc(size); }

void *__wrap_nf_alloc_zeroed(size_t size) { return fuzz::Refuse() ? nullptr : __real_nf_alloc_zeroed(size); }

void *__wrap_nf_realloc(void *block, size_t size) {
  return fuzz::Refuse() ? nullptr : __real_nf_realloc(block, size);
}

void *__wrap_nf_pages_alloc(size_t size) { return fuzz::Refuse() ? nullptr : __real_nf_pages_alloc(size); }

void *__wrap_nf_pages_realloc(void *block, size_t old_size, size_t size) {
  return fuzz::Refuse() ? nullptr : __real_nf_pages_realloc(block, old_size, size);
}
}
