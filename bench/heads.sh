#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heads.sh [HEADS...]   CPU seconds of `qkgeom heads` on a real capture: all 64 heads of the bundled model, 12 documents of 8192
# tokens, about 24 queries and keys of each of a document's 16 buckets, with moments. Several programs (one of an earlier
# commit, say) take turns; prints the least of each program, all threads together, and its speed in units of the first's.
# HEADS [build/native/bin/qkgeom-heads]: programs. CAPTURE: a capture to read in place of the one that is made here by
# CAPTURER [build/native/bin/qkgeom-capture]. ROUNDS [3]; THREADS [2]; ARGUMENTS: more arguments of `qkgeom heads`.
set -euo pipefail
case ${1-} in
  -h | --help) sed -n '3,8s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
programs=("$@")
((${#programs[@]})) || programs=("$root/build/native/bin/qkgeom-heads")
for program in "${programs[@]}"; do
  [[ -x $program ]] || { echo "$program is not there: cmake --preset native && cmake --build --preset native" >&2; exit 2; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
capture=${CAPTURE:-$scratch/capture}
if [[ -z ${CAPTURE-} ]]; then
  data=$root/examples/data/kjv-smollm3
  "${CAPTURER:-$root/build/native/bin/qkgeom-capture}" --model "$data/lc-4096-to-8192-step-10" \
    --jsonl "$data/heldout.jsonl" --max-length 8192 --heads all --bucket-size 512 --rate 24 --moments --out "$capture" >&2
fi

TIMEFORMAT='%U %S'
for ((round = 0; round < ${ROUNDS:-3}; ++round)); do
  for ((p = 0; p < ${#programs[@]}; ++p)); do
    # shellcheck disable=SC2086
    { time "${programs[p]}" "$capture" --threads "${THREADS:-2}" ${ARGUMENTS-} --out "$scratch/out" >/dev/null 2>"$scratch/log"; } \
      2>>"$scratch/$p" || { cat "$scratch/log" >&2; exit 1; }
    rm -rf "$scratch/out"
  done
done
lscpu | sed -n 's/^Model name: *//p'
for ((p = 0; p < ${#programs[@]}; ++p)); do
  awk '{ s = $1 + $2 } NR == 1 || s < least { least = s } END { print least }' "$scratch/$p"
done | awk 'NR == 1 { first = $1 } { printf "%8.2f s of CPU  x %.2f\n", $1, first / $1 }' | paste -d' ' - <(printf '%s\n' "${programs[@]}")
