#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# options.sh [PROGRAM]   What --moments, --softmax and --loss cost together: a capture of one document of 8192 tokens with
# them and without, taking turns, in f32 and bf16, two threads. Prints CPU seconds and seconds by the clock, summed over the
# rounds, and the ratios. PROGRAM [build/native/bin/qkgeom-capture]; MODEL: a checkpoint or GGUF file in place of the
# bundled model (examples/real_model.sh fetches SmolLM2-135M); ROUNDS [3].
set -euo pipefail
case ${1-} in
  -h | --help) sed -n '3,6s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=${1:-$root/build/native/bin/qkgeom-capture}
[[ -x $program ]] || { echo "$program is not there: cmake --preset native && cmake --build --preset native" >&2; exit 2; }
data=$root/examples/data/kjv-smollm3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

TIMEFORMAT='%U %S %R'
capture() { # LIST OPTION...   appends user, system and clock seconds to LIST
  { time "$program" --model "${MODEL:-$data/lc-4096-to-8192-step-10}" --jsonl "$data/heldout.jsonl" --examples 1 \
      --max-length 8192 --threads 2 "${@:2}" --out "$scratch/capture" >/dev/null 2>"$scratch/log"; } 2>>"$1" ||
    { cat "$scratch/log" >&2; exit 1; }
  rm -rf "$scratch/capture"
}
lscpu | sed -n 's/^Model name: *//p'
for dtype in f32 bf16; do
  for ((round = 0; round < ${ROUNDS:-3}; ++round)); do
    capture "$scratch/plain-$dtype" --dtype $dtype
    capture "$scratch/all-$dtype" --dtype $dtype --moments --softmax --loss
  done
  paste -d' ' "$scratch"/{plain,all}-$dtype | awk -v dtype=$dtype '
    { cpu += $1 + $2; clock += $3; all_cpu += $4 + $5; all_clock += $6 }
    END { printf "%-4s  CPU %.1f s, with all three %.1f s: x %.2f   clock %.1f s, %.1f s: x %.2f\n",
                 dtype, cpu, all_cpu, all_cpu / cpu, clock, all_clock, all_clock / clock }'
done
