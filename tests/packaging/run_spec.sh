#!/usr/bin/env bash
# run_spec.sh RUBY VENDOR_TREE LIBDATADOG_GEM SPEC [further arguments of rspec]
set -euo pipefail
ruby=$1
export NF_VENDOR_TREE=$PWD/$2 NF_LIBDATADOG_GEM=$PWD/$3
shift 3
exec "$ruby" -I tests/packaging -e 'require "rspec/core"; exit RSpec::Core::Runner.run(ARGV)' -- \
  --no-color --format progress "$@"
