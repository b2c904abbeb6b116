#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# headers.sh [NAME]   Seconds to compile each public header alone (g++ -std=c++20 -O2, nothing instantiated), the shortest
# of REPEATS (3) runs; prints them, slowest first, and writes bench/results/NAME.json (NAME: headers by default). An empty
# source is in the list too: what the compiler takes to start.
set -euo pipefail
case ${1-} in
  -h | --help) sed -n '3,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  -*) echo "headers.sh: unknown option $1 (see --help)" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
name=${1:-headers}
compiler=${CXX:-g++}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# measure LABEL: compiles $scratch/source.cpp REPEATS times and prints the shortest time and the label.
measure() {
  local best=
  for ((run = 0; run < ${REPEATS:-3}; ++run)); do
    local start=$EPOCHREALTIME
    "$compiler" -std=c++20 -O2 -c -o /dev/null -Iinclude -isystem /usr/include/eigen3 "$scratch/source.cpp"
    local seconds
    seconds=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }')
    if [[ -z $best ]] || awk -v a="$seconds" -v b="$best" 'BEGIN { exit !(a < b) }'; then best=$seconds; fi
  done
  printf '%s %s\n' "$best" "$1"
}

{
  : >"$scratch/source.cpp"
  measure "(nothing)"
  find include/qkgeom -name '*.hpp' -not -path '*/detail/*' | sort | while read -r header; do
    printf '#include "%s"\n' "${header#include/}" >"$scratch/source.cpp"
    measure "${header#include/}"
  done
} | sort -rn | tee "$scratch/times"

awk -v compiler="$("$compiler" --version | head -1)" -v command="${REPEATS:+REPEATS=$REPEATS }bench/headers.sh $name" '
  BEGIN { printf "{\n \"command\": \"%s\",\n \"compiler\": \"%s\",\n \"seconds\": {", command, compiler }
  { seconds = $1; $1 = ""; sub(/^ /, ""); printf "%s\n  \"%s\": %s", (NR > 1 ? "," : ""), $0, seconds }
  END { print "\n }\n}" }' "$scratch/times" >"bench/results/$name.json"
