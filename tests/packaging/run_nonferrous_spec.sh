#!/usr/bin/env bash
# run_nonferrous_spec.sh RUBY NONFERROUS_GEM SPEC [further arguments of rspec]
set -euo pipefail
ruby=$1
export NF_NONFERROUS_GEM=$PWD/$2
shift 2
exec "$ruby" -I tests/packaging -e 'require "rspec/core"; exit RSpec::Core::Runner.run(ARGV)' -- \
  --no-color --format progress "$@"
