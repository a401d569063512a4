/* `ruby`, with the profiler's extensions linked into it as a Ruby built with --with-static-linked-ext has its own. */
#include <ruby.h>

#include <stdio.h>

/* Ruby's own way, in no header of it. Ruby 3.3 and newer hide it from programs that bring a shared libruby. */
__attribute__((weak)) void ruby_init_ext(const char *name, void (*init)(void));

void Init_datadog_profiling_loader(void);
void Init_datadog_profiling_native_extension(void);
void Init_datadog_pprof_reader(void);
void Init_datadog_signal_relay(void);
void Init_datadog_folder_uploader(void);

int main(int argc, char **argv) {
  ruby_sysinit(&argc, &argv);
  RUBY_INIT_STACK;
  ruby_init();
  if (!ruby_init_ext) {
    fprintf(stderr, "this libruby takes no linked extensions\n");
    return 77;
  }
  ruby_init_ext("datadog_profiling_loader.so", Init_datadog_profiling_loader);
  ruby_init_ext("datadog_profiling_native_extension.so", Init_datadog_profiling_native_extension);
  ruby_init_ext("datadog_pprof_reader.so", Init_datadog_pprof_reader);
  ruby_init_ext("datadog_signal_relay.so", Init_datadog_signal_relay);
  ruby_init_ext("datadog_folder_uploader.so", Init_datadog_folder_uploader);
  return ruby_run_node(ruby_options(argc, argv));
}
