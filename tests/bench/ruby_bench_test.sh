#!/usr/bin/env bash
# Do the measuring scripts of the Ruby profiler still measure? (What they find in so short a time means nothing.)
set -euo pipefail
ruby=$1
lib=ruby/extension/lib

rows() { # SCRIPT ROWS ENVIRONMENT... -- ARGUMENTS...
  local script=$1 expected=$2 environment=() out
  shift 2
  while [ "$1" != -- ]; do
    environment+=("$1")
    shift
  done
  shift
  out=$(env "${environment[@]}" "$ruby" "tests/bench/$script" "$lib" "$@")
  echo "$out"
  [ "$(tail -n +3 <<<"$out" | grep -c '^| .*[0-9]')" = "$expected" ] || { echo "$script: not $expected rows" >&2 && exit 1; }
}

rows ruby_accuracy.rb 6 NF_ACCURACY_SECONDS=0.5 -- 1
rows ruby_heap.rb 8 NF_HEAP_SECONDS=0.2 -- 2
