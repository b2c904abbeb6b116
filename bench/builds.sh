#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# builds.sh [OUT]   How long a newcomer waits: from a clean clone with no compiler cache, examples/demo.sh to its figures,
# and tests/run.sh with nvcc (where it is) and without. Packages are installed before. OUT: bench/results/builds.json.
# Takes more than an hour on two cores; leave them alone meanwhile.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,5s/^# //p' "${BASH_SOURCE[0]}"; exit 0; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$(realpath -m "${1:-$root/bench/results/builds.json}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1
bash "$root/.ci/install-packages.sh" tests

fields=()
# timed NAME COMMAND...: in a clone of its own.
timed() {
  local name=$1 start=$EPOCHREALTIME
  git clone -q "$root" "$work/clone"
  (cd "$work/clone" && "${@:2}") >"$work/log" 2>&1 || { tail -40 "$work/log" >&2; exit 1; }
  fields+=("$(awk -v a="$start" -v b="$EPOCHREALTIME" -v n="$name" 'BEGIN { printf "  \"%s\": %.0f", n, b - a }')")
  echo "${fields[-1]} s"
  rm -rf "$work/clone"
}
# "AMD EPYC (family 26, model 2)": several generations have the one name.
cpu=$(awk -F '\t*: ' '{ at[$1] = $2 } /^$/ { exit } END { print at["model name"] " (family " at["cpu family"] ", model " at["model"] ")" }' /proc/cpuinfo)
# After each, so that a run that is cut short leaves what it has.
write_results() {
  printf '{\n  "cpu": "%s",\n  "cores": %s,\n  "commit": "%s",\n' "$cpu" "$(nproc)" "$(git -C "$root" rev-parse --short HEAD)"
  printf '%s' "${fields[0]}"
  ((${#fields[@]} == 1)) || printf ',\n%s' "${fields[@]:1}"
  printf '\n}\n'
} >"$out"
timed demo_s bash examples/demo.sh
write_results
if command -v nvcc >/dev/null; then
  timed tests_with_nvcc_s bash tests/run.sh
  write_results
fi
timed tests_without_nvcc_s env QKGEOM_CUDA=OFF bash tests/run.sh
write_results
