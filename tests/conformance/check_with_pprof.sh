#!/usr/bin/env bash
# Lets the real pprof tool read profiles that our library wrote for generated sequences of calls; where the original
# library is there, pprof must say the same of what that one writes.
#   check_with_pprof.sh DRIVER OUR_LIBRARY [SEQUENCES]
# pprof is $NF_PPROF, or in the cache, or in PATH, or a part of go.
set -uo pipefail
driver=$1 ours=$2 sequences=${3:-15}
[[ $ours == /* ]] || ours=$PWD/$ours
home=${HOME:-}
[ -n "$home" ] && [ "$home" != "${TEST_TMPDIR:-}" ] || home=$(getent passwd "$(id -u)" | cut -d: -f6)
cache=${NF_CACHE:-$home/.cache/nonferrous}
oracle=$cache/rust/lib/libdatadog_profiling.so

if [ -n "${NF_PPROF:-}" ]; then pprof=("$NF_PPROF")
elif [ -x "$cache/pprof" ]; then pprof=("$cache/pprof")
elif command -v pprof >/dev/null; then pprof=(pprof)
elif command -v go >/dev/null; then pprof=(go tool pprof)
else
  echo "skipped: there is no pprof tool (Debian: golang-go has one; or name it in NF_PPROF)"
  exit 0
fi

work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/pprof.XXXXXX")
trap 'rm -rf "$work"' EXIT
export PPROF_TMPDIR=$work HOME=$work
mkdir "$work/ours" "$work/original"
"$driver" --ours "$ours" --write "$work/ours" --sequences "$sequences" || exit 1
compare=no
[ -f "$oracle" ] && "$driver" --ours "$oracle" --write "$work/original" --sequences "$sequences" && compare=yes

# Profiles without sample types are right for libdatadog, but pprof has no use for them.
useless() { grep -qaE 'missing sample type information|profile has no samples' "$1"; }
# The order of samples is free; the times are not equal where a profile asked for the clock.
canonical() { grep -avE '^(File|Time|Duration): ' "$1" | LC_ALL=C sort; }

read=0 refused=0 wrong=0
for file in "$work"/ours/*; do
  name=$(basename "$file" .gz)
  for report in -raw -top -traces; do
    if ! "${pprof[@]}" "$report" "$file" >"$work/out" 2>"$work/err"; then
      if useless "$work/err"; then refused=$((refused + 1)); continue; fi
      echo "pprof $report refuses $name: $(head -n 3 "$work/err")"
      wrong=$((wrong + 1))
      continue
    fi
    read=$((read + 1))
    [ $compare = yes ] && [ "$report" = -traces ] || continue
    "${pprof[@]}" "$report" "$work/original/$name" >"$work/expected" 2>"$work/err"
    if ! diff <(canonical "$work/expected") <(canonical "$work/out") >"$work/diff"; then
      echo "pprof says of $name (< original, > ours):"
      head -n 20 "$work/diff"
      wrong=$((wrong + 1))
    fi
  done
done
echo "pprof gave $read reports; it refused $refused for want of sample types; $wrong wrong; compared with the original: $compare"
[ "$read" -gt 0 ] && [ "$wrong" -eq 0 ]
