#!/usr/bin/env bash
# Runs one spec file: run_spec.sh RUBY SPEC [further arguments of rspec]. Works in Bazel's runfiles only.
set -euo pipefail
ruby=$1
spec=$2
shift 2
exec "$ruby" -I . -I tests/e2e -e 'require "rspec/core"; exit RSpec::Core::Runner.run(ARGV)' -- \
  --no-color --format documentation "$@" "$spec"
