/* Which extensions are in libdatadog_profiling_ruby.a, and how a Ruby learns that it has them. Before it runs any Ruby
 * code, and with the GVL held:
 *
 *   #define ADD(name) ruby_init_ext(#name ".so", Init_##name);
 *   NF_LINKED_EXTENSIONS(ADD)
 *
 * From then on `require "NAME"` calls Init_NAME and opens no file. */
#ifndef NF_RUBY_LINKED_EXTENSIONS_H
#define NF_RUBY_LINKED_EXTENSIONS_H

#define NF_LINKED_EXTENSIONS(X)                                                                              \
  X(datadog_profiling_loader)                                                                                \
  X(datadog_profiling_native_extension)                                                                      \
  X(datadog_pprof_reader)                                                                                    \
  X(datadog_signal_relay)                                                                                    \
  X(datadog_folder_uploader)

#define NF_DECLARE_INIT(name) void Init_##name(void);
NF_LINKED_EXTENSIONS(NF_DECLARE_INIT)
#undef NF_DECLARE_INIT

/* Ruby's own, in no header of it; takes a name that stays. */
void ruby_init_ext(const char *name, void (*init)(void));

#endif
