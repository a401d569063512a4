#!/bin/bash
# build_gem.sh OUT GEMSPEC LIST: see gem.bzl. LIST has lines of DESTINATION=FILE.
set -eu
out=$PWD/$1 gemspec=$2 list=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
while IFS='=' read -r to from; do
  mkdir -p "$work/$(dirname "$to")"
  cp -L "$from" "$work/$to"
  # What is run is executable, the rest is not, whatever Bazel makes of it.
  if head -c 2 "$work/$to" | grep -q '^#!'; then chmod 755 "$work/$to"; else chmod 644 "$work/$to"; fi
done < "$list"
cd "$work"
export HOME=$work SOURCE_DATE_EPOCH=1700000000
gem build --quiet "$(basename "$gemspec")" 2> errors > /dev/null || {
  cat errors >&2
  exit 1
}
built=$(echo *.gem)
if [ "$built" != "${out##*/}" ]; then # the version stands in the BUILD file, too
  echo "$gemspec makes $built, not ${out##*/}" >&2
  exit 1
fi
mv "$built" "$out"
