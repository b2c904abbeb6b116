#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# capture.sh [PROGRAM] [PYTHON]
# qkgeom-capture beside transformers with PyTorch in one run: the bundled model, 8192 tokens a document, all heads, f32
# and bf16, two threads. Prints tokens/s, peak memory and the ratios; writes bench/results/capture-kjv-smollm3.json.
# PROGRAM [build/native/bin/qkgeom-capture]; PYTHON [python3] needs torch, transformers, tokenizers, safetensors.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=$(realpath "${1:-$root/build/native/bin/qkgeom-capture}")
python=${2:-python3}
rounds=${ROUNDS:-3}
examples=${EXAMPLES:-4}
data=$root/examples/data/kjv-smollm3
model=$data/lc-4096-to-8192-step-10
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for ((round = 0; round < rounds; ++round)); do
  for dtype in f32 bf16; do
    "$python" "$root/bench/baselines/capture_transformers.py" "$model" "$data/heldout.jsonl" "$scratch/theirs" \
      --dtype $dtype --examples "$examples" --threads 2 2>/dev/null >>"$scratch/theirs-$dtype"
    rm -rf "$scratch/ours"
    "$program" --model "$model" --jsonl "$data/heldout.jsonl" --out "$scratch/ours" --bucket-size 512 --rate 24 \
      --examples "$examples" --dtype $dtype --threads 2 2>/dev/null >>"$scratch/ours-$dtype"
  done
done

"$python" - "$scratch" "$root/bench/results/capture-kjv-smollm3.json" "$(lscpu | sed -n 's/^Model name: *//p')" <<'END'
import json, os, re, sys
scratch, target, cpu = sys.argv[1:]
result = {"command": "bench/capture.sh", "cpu": cpu, "threads": 2, "tokens_a_document": 8192,
          "load_average": os.getloadavg()[0]}
for dtype in ("f32", "bf16"):
    theirs = [json.loads(line) for line in open(f"{scratch}/theirs-{dtype}")]
    ours = [re.search(r"(\d+) tokens/s.* memory (\d+) MB", line).groups() for line in open(f"{scratch}/ours-{dtype}")]
    r = {"qkgeom_capture": {"tokens_per_s": max(float(o[0]) for o in ours), "peak_rss_mb": max(float(o[1]) for o in ours)},
         "transformers": {"tokens_per_s": max(t["tokens_per_s"] for t in theirs), "peak_rss_mb": max(t["peak_rss_mb"] for t in theirs),
                          "torch": theirs[0]["torch"]}}
    r["speed_ratio"] = r["qkgeom_capture"]["tokens_per_s"] / r["transformers"]["tokens_per_s"]
    r["memory_ratio"] = r["qkgeom_capture"]["peak_rss_mb"] / r["transformers"]["peak_rss_mb"]
    result[dtype] = r
    print("%-4s  qkgeom-capture %6.0f tokens/s, %4.0f MB   transformers %6.0f tokens/s, %4.0f MB   speed x %.2f, memory x %.2f" % (
        dtype, r["qkgeom_capture"]["tokens_per_s"], r["qkgeom_capture"]["peak_rss_mb"], r["transformers"]["tokens_per_s"],
        r["transformers"]["peak_rss_mb"], r["speed_ratio"], r["memory_ratio"]))
with open(target, "w") as f:
    json.dump(result, f, indent=1)
    f.write("\n")
END
