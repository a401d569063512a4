#ifndef NF_HEAP_HOOK_H
#define NF_HEAP_HOOK_H

// Where the VM tells us of each object that it frees, for all heap recorders of the process.
//
// Before Ruby 3.4 the VM keeps quiet about objects that it frees while some library's own hook for
// allocations runs (a GC can start there when that library asks for memory), and any VM about those that a GC
// started by another Ractor frees. So what we are told is compared with the VM's own count, and a recorder
// can ask whether it may have missed something.

#include "heap_recorder.h"

#include <stdbool.h>
#include <stdint.h>

// GVL held, main Ractor. Adding may raise. A recorder may be added twice.
void nf_heap_hook_add(nf_heap_recorder *recorder);
void nf_heap_hook_remove(nf_heap_recorder *recorder);
// As `remove`, for use in a GC: if it was the last one, the hook is taken off the next time that one is added
// or removed.
void nf_heap_hook_forget(nf_heap_recorder *recorder);

// For all recorders at once, which forget their objects. As `remove` otherwise.
void nf_heap_hook_end(void);

// A new object has this address: whatever had it is gone. To be called for each new object.
void nf_heap_hook_new_object(VALUE object);

// How often it was found that frees had been missed. GVL held; in a GC too.
uint64_t nf_heap_hook_missed(void);

// A compaction has moved objects, which Ruby 3.4 counts as freed in their old places and made in the new.
// Nothing else is made in a GC, so that tells how many. To be called in that GC, before the question above.
void nf_heap_hook_compacted(void);

// For tests: has the VM our hook? And: pretend that a free was missed.
bool nf_heap_hook_attached(void);
void nf_heap_hook_pretend_missed(void);

#endif
