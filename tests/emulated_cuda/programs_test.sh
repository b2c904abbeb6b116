#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The CUDA programs on the emulated device against those of the CPU, as tests/run_gpu.sh does on a GPU. Run in a scratch
# folder, with QKGEOM_BIN, the folder of the CUDA programs, and QKGEOM_SOURCE set.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
cuda=$QKGEOM_BIN
QKGEOM_BIN=$(dirname "$cuda")
data=$QKGEOM_SOURCE/examples/data/kjv-smollm3
capture=(--model "$data/lc-4096-to-8192-step-10" --jsonl "$data/heldout.jsonl" --examples 3 --max-length 300 --batch-tokens 600
         --bucket-size 64)
rows=(--rate 32 --moments --softmax --loss)
on() { # DEVICE COMMAND ARGUMENTS...
  if [[ $1 == cuda ]]; then QKGEOM_BIN=$cuda run "qkgeom-$2-cuda" "${@:3}" --device cuda; else run "${@:2}"; fi
}
same() { # FOLDER FOLDER TABLES...
  python3 "$QKGEOM_SOURCE/tests/gpu/compare_tables.py" "$@" || bad "$1 and $2 differ"
}

cat >"$work/conditions.json" <<'END'
{"conditions": [{"name": "one less", "changes": [{"head": "0.1", "ablate": true}]}]}
END
for device in cuda cpu; do
  for program in heads pca rotation plasticity; do
    on $device $program "$QKGEOM_SOURCE/tests/data/golden/long-bf16.safetensors" --no-figures --out "$work/$program-$device"
  done
  on $device capture "${capture[@]}" "${rows[@]}" --out "$work/rows-$device"
  grep '^loss' "$work/stdout" >"$work/loss-$device"
  run heads "$work/rows-$device" --no-figures --out "$work/softmax-$device"
  on $device evaluate --model "$data/lc-4096-to-8192-step-10" --jsonl "$data/heldout.jsonl" --examples 3 \
    --max-length 300 --distances 64 --trials 2 --conditions "$work/conditions.json" --out "$work/evaluated-$device"
done
same "$work/heads-cuda" "$work/heads-cpu" profile.csv heatmap.csv qk.csv rotated.csv
same "$work/pca-cuda" "$work/pca-cpu" qk.csv
same "$work/rotation-cuda" "$work/rotation-cpu" rotated.csv
same "$work/plasticity-cuda" "$work/plasticity-cpu" profile.csv heatmap.csv
same "$work/softmax-cuda" "$work/softmax-cpu" softmax.csv softmax_distance.csv
[[ -s $work/loss-cpu ]] && cmp "$work/loss-cuda" "$work/loss-cpu" || bad "the losses differ: $(cat "$work"/loss-*)"

same "$work/evaluated-cuda" "$work/evaluated-cpu" condition_loss.csv condition_probes.csv
cmp -s "$work/evaluated-cuda/condition_loss.csv" "$work/evaluated-cpu/condition_loss.csv" && bad "no loss is rounded otherwise: qkgeom-evaluate ran on the CPU both times"

# Layers that share room give the rows and moments of layers that stay.
on cuda capture "${capture[@]}" "${rows[@]}" --resident stream --out "$work/rows-stream"
for file in "$work/rows-cuda"/*.safetensors; do
  cmp "$file" "$work/rows-stream/$(basename "$file")" || bad "$file is another with --resident stream"
done

QKGEOM_BIN=$cuda run library_device
(($(grep -cE '^ *[0-9]+ to +[0-9]+  0\.[0-9]{6} ± 0\.[0-9]{6}$' "$work/stdout") == 7)) || bad "library_device prints $(cat "$work/stdout")"

# The whole bench, on a hundredth of its data: no benchmark throws, and its table is written.
if [[ -x $cuda/gpu_bench ]]; then
  mkdir "$work/results"
  QKGEOM_BIN=$cuda run gpu_bench --small --benchmark_out="$work/results/gpu_bench.json" --benchmark_out_format=json
  python3 "$QKGEOM_SOURCE/bench/summarize.py" "$work/results" "$work/result.json" --gpu "none" --command "a test" >"$work/table" ||
    bad "a benchmark failed: $(cat "$work/table")"
  (($(grep -c '^goal: .*: \(at least\|at most\) .*  \(met\|NOT MET\)$' "$work/table") == 4)) || bad "goals: $(grep '^goal' "$work/table")"
fi
