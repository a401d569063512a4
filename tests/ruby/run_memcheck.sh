#!/usr/bin/env bash
# Runs memcheck.rb in Bazel's runfiles: run_memcheck.sh RUBY
set -euo pipefail
lib=ruby/extension/lib
if [[ $(nm -D $lib/datadog_profiling_native_extension.*) =~ __(asan|tsan)_init ]]; then
  echo "skipped: the extension is built with a sanitizer, which Valgrind cannot run (the specs run with it instead)"
  exit 0
fi
# A Ruby without its bundled gems takes REXML from the one in PATH.
if ! "$1" -e 'require "rexml/document"' 2>/dev/null; then
  RUBYLIB=$(ruby -r rexml/document -e 'puts $LOADED_FEATURES.grep(%r{/rexml/document.rb}).map { |it| it[%r{.*(?=/rexml/)}] }')
  export RUBYLIB
fi
exec "$1" tests/ruby/memcheck.rb "$lib"
