#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# capture.sh [PROGRAM] [PYTHON]
# qkgeom capture beside transformers with PyTorch (sdpa attention) in one run, taking turns: the bundled model at 8192
# tokens a document, a random Llama of 100 M parameters at 4096, and with GGUF=FILE that Llama (examples/real_model.sh
# fetches SmolLM2-135M) at 2048 and 8192, ours from the safetensors that transformers reads and from the GGUF itself; all
# heads, f32 and bf16, two threads. Prints tokens/s, peak memory and the ratios; writes bench/results/capture-MODEL.json.
# PROGRAM [build/native/bin/qkgeom-capture]; PYTHON [python3] needs torch, transformers, tokenizers, safetensors, and for
# GGUF gguf. MODELS ["kjv-smollm3 random-llama", and "gguf" with GGUF]; ROUNDS [3]; EXAMPLES [4]: documents, of which
# transformers' first warms it up.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1-} in
  -h | --help) sed -n '3,11s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
program=${1:-$root/build/native/bin/qkgeom-capture}
python=${2:-python3}
[[ -x $program ]] || { echo "$program is not there: cmake --preset native && cmake --build --preset native" >&2; exit 2; }
"$python" -c 'import torch, transformers, tokenizers, safetensors' 2>/dev/null || { echo "$python lacks one of: torch, transformers, tokenizers, safetensors" >&2; exit 2; }
program=$(realpath "$program")
rounds=${ROUNDS:-3}
examples=${EXAMPLES:-4}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# measure NAME MODEL JSONL TOKENS_A_DOCUMENT [OUR_MODEL]
measure() {
  rm -f "$scratch"/{ours,theirs}-{f32,bf16}
  local round dtype
  for ((round = 0; round < rounds; ++round)); do
    for dtype in f32 bf16; do
      "$python" "$root/bench/baselines/capture_transformers.py" "$2" "$3" "$scratch/theirs" \
        --dtype $dtype --examples "$examples" --max-length "$4" --threads 2 2>/dev/null >>"$scratch/theirs-$dtype"
      rm -rf "$scratch/ours"
      "$program" --model "${5:-$2}" --jsonl "$3" --out "$scratch/ours" --bucket-size 512 --rate 24 \
        --max-length "$4" --examples "$examples" --dtype $dtype --threads 2 2>/dev/null >>"$scratch/ours-$dtype"
    done
  done
  echo "$1"
  "$python" - "$scratch" "$root/bench/results/capture-$1.json" "$(lscpu | sed -n 's/^Model name: *//p')" "$4" <<'END'
import json, os, re, sys
scratch, target, cpu, tokens = sys.argv[1:]
result = {"command": "bench/capture.sh", "cpu": cpu, "threads": 2, "tokens_a_document": int(tokens),
          "load_average": os.getloadavg()[0]}
def summary(speeds, memory):
    return {"tokens_per_s": max(speeds), "slowest_round": min(speeds), "peak_rss_mb": max(memory)}
for dtype in ("f32", "bf16"):
    theirs = [json.loads(line) for line in open(f"{scratch}/theirs-{dtype}")]
    ours = re.findall(r"(\d+) tokens/s.* memory (\d+) MB", open(f"{scratch}/ours-{dtype}").read())
    r = {"qkgeom_capture": summary([float(o[0]) for o in ours], [float(o[1]) for o in ours]),
         "transformers": {**summary([t["tokens_per_s"] for t in theirs], [t["peak_rss_mb"] for t in theirs]),
                          "torch": theirs[0]["torch"]}}
    r["speed_ratio"] = r["qkgeom_capture"]["tokens_per_s"] / r["transformers"]["tokens_per_s"]
    r["memory_ratio"] = r["qkgeom_capture"]["peak_rss_mb"] / r["transformers"]["peak_rss_mb"]
    result[dtype] = r
    print("  %-4s  qkgeom capture %6.0f tokens/s, %4.0f MB   transformers %6.0f tokens/s, %4.0f MB   speed x %.2f, memory x %.2f" % (
        dtype, r["qkgeom_capture"]["tokens_per_s"], r["qkgeom_capture"]["peak_rss_mb"], r["transformers"]["tokens_per_s"],
        r["transformers"]["peak_rss_mb"], r["speed_ratio"], r["memory_ratio"]))
with open(target, "w") as f:
    json.dump(result, f, indent=1)
    f.write("\n")
END
}

for name in ${MODELS:-kjv-smollm3 random-llama ${GGUF:+gguf}}; do
  case $name in
    kjv-smollm3)
      data=$root/examples/data/kjv-smollm3
      measure $name "$data/lc-4096-to-8192-step-10" "$data/heldout.jsonl" 8192
      ;;
    random-llama)
      "$python" "$root/bench/baselines/make_random_model.py" llama-100m "$scratch/model" --documents "$examples" --tokens 4096
      measure $name "$scratch/model" "$scratch/model/documents.jsonl" 4096
      ;;
    gguf)
      "$python" "$root/bench/baselines/llama_from_gguf.py" "${GGUF:?names a GGUF file}" \
        "$root/examples/data/kjv-smollm3/heldout.jsonl" "$scratch/llama" --documents "$examples"
      known=$(basename "$GGUF" .gguf)
      for tokens in 2048 8192; do
        measure "$known-safetensors-$tokens" "$scratch/llama" "$scratch/llama/documents.jsonl" $tokens
        measure "$known-$tokens" "$scratch/llama" "$scratch/llama/documents.jsonl" $tokens "$(realpath "$GGUF")"
      done
      ;;
    *) echo "capture.sh: no model $name (see MODELS above)" >&2; exit 2 ;;
  esac
done
