#!/usr/bin/env bash
# The benchmark itself works: every section runs, and profiles hold what was added (the benchmark checks that).
# Given: profile_bench, the library.
set -euo pipefail
bench=$1 library=$2
dump=$TEST_TMPDIR/dump
mkdir "$dump"
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

"$bench" --lib a="$library" --lib b="$library" --reps 1 --scale 0.002 --only W1,W2,W3,W4,W5,W6,load,codecs,curve,export \
  --dump "$dump" --tsv "$TEST_TMPDIR/tsv" | tee "$TEST_TMPDIR/out"
for w in W1 W2 W3 W4 W5 W6; do
  cmp "$dump/$w.a.pprof" "$dump/$w.b.pprof" || fail "equal input gave different bytes"
  grep -q "^$w	peak RSS kB, after adds	b	" "$TEST_TMPDIR/tsv" || fail "no figures of $w"
done
# W3 at this scale: 1000 samples, each with its timestamp.
grep -q "^W3	= samples	a	1000$" "$TEST_TMPDIR/tsv" || fail "W3 has not 1000 samples"

"$bench" --lib /does/not/exist 2>/dev/null && fail "a library that does not exist was measured"
"$bench" --lib "$bench" --only W1 --reps 1 2>/dev/null && fail "a library without the interface was measured"
echo "passed"
