/* Puts the profiler's extensions beside those that were linked into a Ruby by --with-static-linked-ext. That Ruby calls
 * Init_ext to know its own; linked with -Wl,--wrap=Init_ext, it calls this instead. */
#include "ruby/linked/extensions.h"

void __real_Init_ext(void);
void __wrap_Init_ext(void);

void __wrap_Init_ext(void) {
  __real_Init_ext();
#define ADD(name) ruby_init_ext(#name ".so", Init_##name);
  NF_LINKED_EXTENSIONS(ADD)
}
