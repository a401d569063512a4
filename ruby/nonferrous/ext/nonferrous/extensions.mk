# Compiles Ruby extensions without Bazel. SOURCE holds what the gem has in src/; ruby-headers and ruby-arch-headers lead to
# Ruby's headers. The flags are those of ruby/BUILD.

include build.mk

EXTENSIONS = datadog_profiling_loader datadog_profiling_native_extension datadog_pprof_reader datadog_signal_relay \
  datadog_folder_uploader
LEFT_OUT = ruby/profiler/clock_id_noop.c $(if $(MJIT_HEADER),,ruby/profiler/private_vm_access.c)
PROFILER = $(patsubst ruby/%.c,ext/%.o,$(filter-out $(LEFT_OUT),$(wildcard ruby/profiler/*.c)))
RUBY_FLAGS = $(OURS) -isystem ruby-arch-headers -isystem ruby-headers -DNF_RUBY_VERSION='"$(RUBY_VERSION)"' \
  $(if $(MJIT_HEADER),-DRUBY_MJIT_HEADER='"$(MJIT_HEADER)"' -DNF_VM_PRIVATE_TIER)
LINK = $(CC) $(CFLAGS) $(LDFLAGS) -shared -s -o $@ $^ -Wl,--gc-sections -Wl,-z,relro,-z,now -Wl,--as-needed \
  -Wl,--version-script,ruby/exports.lds $(addprefix -l,$(CODECS)) $(LIBRUBY) -lm -ldl -lpthread

extensions: $(addsuffix .so,$(EXTENSIONS))

ext/%.o: ruby/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(RUBY_FLAGS) -c $< -o $@

# Of the engine and exporter, each extension takes what it uses.
ours.a: $(OBJECTS) objects/cares.o objects/msgpack.o
	ar rcsD $@ $^

datadog_profiling_loader.so: ext/loader/loader.o
	$(LINK)
datadog_profiling_native_extension.so: $(PROFILER) ours.a
	$(LINK)
datadog_pprof_reader.so: ext/pprof_reader/pprof_reader.o ours.a
	$(LINK)
datadog_signal_relay.so: ext/signal_relay/signal_relay.o
	$(LINK)
datadog_folder_uploader.so: ext/uploader/uploader.o ours.a
	$(LINK)

.PHONY: extensions
