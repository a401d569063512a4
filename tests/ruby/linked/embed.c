/* `ruby`, with the profiler's extensions linked into it as a Ruby built with --with-static-linked-ext has its own. */
#include <ruby.h>

#include <stdio.h>

#include "ruby/linked/extensions.h"

/* Ruby 3.3 and newer hide it from programs that bring a shared libruby. */
#pragma weak ruby_init_ext

int main(int argc, char **argv) {
  ruby_sysinit(&argc, &argv);
  RUBY_INIT_STACK;
  ruby_init();
  if (!ruby_init_ext) {
    fprintf(stderr, "this libruby takes no linked extensions\n");
    return 77;
  }
#define ADD(name) ruby_init_ext(#name ".so", Init_##name);
  NF_LINKED_EXTENSIONS(ADD)
  return ruby_run_node(ruby_options(argc, argv));
}
