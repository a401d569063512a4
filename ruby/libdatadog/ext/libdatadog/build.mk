# Compiles the library without Bazel: make -f build.mk tree SOURCE=... PLATFORM=... TRIPLE=... VERSION=...
# SOURCE holds core/, exporter/, proto/ (with protobuf-c's output), vendor_tree.sh and the licences. Needs make, a C compiler,
# binutils and the libraries named below. The flags and the two private archives are those of the BUILD files.

include $(SOURCE)/exporter/private_functions.mk

CC ?= cc
CFLAGS ?=
CPPFLAGS ?=
LDFLAGS ?=
OBJECTS = $(patsubst $(SOURCE)/%.c,objects/%.o,$(wildcard $(SOURCE)/core/*.c $(SOURCE)/core/abi/*.c \
  $(SOURCE)/exporter/*.c $(SOURCE)/exporter/abi/*.c $(SOURCE)/proto/*.c))
HEADERS = $(wildcard $(SOURCE)/core/include/datadog/*.h)
TEXTS = $(addprefix $(SOURCE)/,LICENSE LICENSE-3rdparty.csv LICENSE.Apache LICENSE.BSD3 NOTICE)
CODECS = protobuf-c z lz4 zstd
# What newer releases of LZ4 need, if it is there.
XXHASH = $(filter /%,$(shell $(CC) -print-file-name=libxxhash.a))
# The second name is that of newer releases. Only a library that was found has a path.
MSGPACK = $(firstword $(filter /%,$(foreach name,libmsgpackc.a libmsgpack-c.a,$(shell $(CC) -print-file-name=$(name)))))

OURS = -std=gnu11 -D_FILE_OFFSET_BITS=64 -O2 -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections \
  -I$(SOURCE) -I$(SOURCE)/core/include

all: libdatadog_profiling.so libdatadog_profiling.a

objects/%.o: $(SOURCE)/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(OURS) -c $< -o $@

objects/cares.o:
	@mkdir -p objects
	ld -r -o $@ $(addprefix -u ,$(CARES_FUNCTIONS)) $$($(CC) -print-file-name=libcares.a)
	objcopy --redefine-sym getenv=nf_env_get $(addprefix --keep-global-symbol=,$(CARES_FUNCTIONS)) $@

objects/msgpack.o:
	@mkdir -p objects
	ld -r -o $@ $(addprefix -u ,$(MSGPACK_FUNCTIONS)) $(MSGPACK)
	objcopy --redefine-sym getenv=nf_env_get $(addprefix --keep-global-symbol=,$(MSGPACK_FUNCTIONS)) $@

# One object in which only ddog_… is global.
objects/all.o: $(OBJECTS) objects/cares.o objects/msgpack.o
	ld -r -o $@ $^
	objcopy --localize-hidden --wildcard --keep-global-symbol='ddog_*' $@

libdatadog_profiling.a: objects/all.o
	rm -f $@
	ar rcsD $@ $<

libdatadog_profiling_standalone.a: objects/all.o
	ld -r -o objects/standalone.o $< $(foreach name,$(CODECS),$$($(CC) -print-file-name=lib$(name).a)) $(XXHASH)
	objcopy --wildcard --keep-global-symbol='ddog_*' objects/standalone.o
	rm -f $@
	ar rcsD $@ objects/standalone.o

libdatadog_profiling.so: $(OBJECTS) objects/cares.o objects/msgpack.o
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -o $@ $^ -Wl,--gc-sections -Wl,-z,relro,-z,now -Wl,-z,defs -Wl,--as-needed \
	  -Wl,--version-script,$(SOURCE)/core/exports.lds $(addprefix -l,$(CODECS)) -lm -ldl -lpthread

tree: libdatadog_profiling.so libdatadog_profiling.a
	rm -rf $@
	sh $(SOURCE)/vendor_tree.sh $@ $(PLATFORM) $(TRIPLE) $(VERSION) libdatadog_profiling.so libdatadog_profiling.a - \
	  $(HEADERS) $(TEXTS)

.PHONY: all
