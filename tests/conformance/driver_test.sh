#!/usr/bin/env bash
# Plants one fault after the other into a right library: the driver must find and shrink each, and find nothing when
# there is none.
set -uo pipefail
driver=$1 right=$2 broken=$3
[[ $right == /* ]] || right=$PWD/$right
failed=0

run() { # fault -> output of the driver, its exit status
  NF_BROKEN=$1 NF_BROKEN_FOR=$right "$driver" --oracle "$right" --ours "$broken" --sequences 1000 --no-directed \
    --max-failures 1 2>&1
}

out=$(run nothing)
if [ $? -ne 0 ] || ! grep -q ' 0 failures' <<<"$out"; then
  printf 'a right library was found wrong:\n%s\n' "$out"
  failed=1
fi
faults=(message period unit frames timestamp crash address endpoint poisson duration reset)
# Counts can be seen only through a library that can send.
nm -D --defined-only "$right" | grep -q ddog_prof_Exporter_send && faults+=(count)
for fault in "${faults[@]}"; do
  out=$(run "$fault")
  status=$?
  calls=$(grep -c '^  .*ddog_prof_' <<<"$out")
  # Each of these faults needs no more than new, a few calls, and serialize to be seen.
  if [ "$status" -ne 1 ] || ! grep -q '^FAILED: seed' <<<"$out" || [ "$calls" -gt 6 ]; then
    printf 'fault "%s": exit status %s, shrunk to %s calls\n%s\n' "$fault" "$status" "$calls" "${out:0:4000}"
    failed=1
  else
    echo "fault \"$fault\" found, shrunk to $calls calls"
  fi
done
exit "$failed"
