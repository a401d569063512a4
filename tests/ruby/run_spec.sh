#!/usr/bin/env bash
# Runs one spec file: run_spec.sh RUBY SPEC [further arguments of rspec]. Works in Bazel's runfiles; elsewhere `rspec` will do.
set -euo pipefail
ruby=$1
spec=$2
shift 2

lib=ruby/extension/lib
extension=$(echo $lib/datadog_profiling_native_extension.*)
# With --config=asan the extension is instrumented but Ruby is not: then the sanitizer must be there from the start.
if [[ $(nm -D "$extension" 2>/dev/null) == *__asan_init* ]]; then
  export NF_EXTENSION_ASAN=1
  LD_PRELOAD=$(${CC:-gcc} -print-file-name=libasan.so)
  # Ruby's collector looks for references on the machine stack, so locals must stay there; what Ruby itself never frees
  # is no leak of ours.
  ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:handle_segv=0:use_sigaltstack=0
  export LD_PRELOAD ASAN_OPTIONS
fi
# `ruby` is this one in all that the specs start, too.
program=$(readlink -f "$ruby")
if [ "$(readlink -f "$(command -v ruby)")" != "$program" ]; then
  PATH=$(dirname "$program"):$PATH
fi
# Another Ruby than the system's takes RSpec from there.
if ! "$ruby" -e 'require "rspec/core"' 2>/dev/null; then
  GEM_PATH=$("$ruby" -e 'puts Gem.path.join(":")'):/usr/share/rubygems-integration/all
  export GEM_PATH
fi
exec "$ruby" -I "$lib" -I tests/ruby -I "$(dirname "$spec")" \
  -e 'require "rspec/core"; exit RSpec::Core::Runner.run(ARGV)' -- --no-color --format progress "$@" "$spec"
