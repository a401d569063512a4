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

"$bench" --lib a="$library" --lib b="$library" --bare touch --bare content --bare pointer --reps 1 --scale 0.002 \
  --only W1,W2,W3,W4,W5,W6,load,codecs,curve,export --dump "$dump" --tsv "$TEST_TMPDIR/tsv" | tee "$TEST_TMPDIR/out"
for w in W1 W2 W3 W4 W5 W6; do
  cmp "$dump/$w.a.pprof" "$dump/$w.b.pprof" || fail "equal input gave different bytes"
  grep -q "^$w	peak RSS kB, after adds	b	" "$TEST_TMPDIR/tsv" || fail "no figures of $w"
done
# The bare engine does the same work: what it wrote has as many samples, locations, references and labels.
for w in W1 W2 W3 W4 W5 W6; do
  for metric in samples locations functions "location references" labels; do
    ours=$(sed -n "s/^$w	= $metric	a	//p" "$TEST_TMPDIR/tsv") bare=$(sed -n "s/^$w	= $metric	bare content	//p" "$TEST_TMPDIR/tsv")
    [[ -n $ours && $ours == "$bare" ]] || fail "$w: $ours $metric, the bare engine has $bare"
  done
done
# W3 at this scale: 1000 samples, each with its timestamp.
grep -q "^W3	= samples	a	1000$" "$TEST_TMPDIR/tsv" || fail "W3 has not 1000 samples"

"$bench" --lib /does/not/exist 2>/dev/null && fail "a library that does not exist was measured"
"$bench" --lib a="$library" --lib46 "$library" --only W1 --reps 1 2>/dev/null && fail "a v6 library was measured as a later one"
"$bench" --lib a="$library" --bare whole --only W1 --reps 1 2>/dev/null && fail "a bare engine that does not exist was measured"
"$bench" --lib "$bench" --only W1 --reps 1 2>/dev/null && fail "a library without the interface was measured"
echo "passed"
