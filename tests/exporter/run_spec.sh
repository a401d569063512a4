#!/usr/bin/env bash
# Runs spec files: run_spec.sh RUBY DRIVER PRELOAD LIBRARY SPEC [further arguments of rspec]
set -euo pipefail
absolute() { case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac; }
ruby=$1
NF_DRIVER=$(absolute "$2")
NF_PRELOAD=$(absolute "$3")
NF_LIBRARY=$(absolute "$4")
export NF_DRIVER NF_PRELOAD NF_LIBRARY
shift 4
exec "$ruby" "$(dirname "$1")/run.rb" "$@"
