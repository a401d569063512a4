#!/usr/bin/env bash
# Runs memcheck.rb in Bazel's runfiles: run_memcheck.sh RUBY
set -euo pipefail
lib=ruby/extension/lib
if [[ $(nm -D $lib/datadog_profiling_native_extension.*) =~ __(asan|tsan)_init ]]; then
  echo "skipped: the extension is built with a sanitizer, which Valgrind cannot run (the specs run with it instead)"
  exit 0
fi
exec "$1" tests/ruby/memcheck.rb "$lib"
