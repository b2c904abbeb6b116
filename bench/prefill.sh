#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# prefill.sh [--program FILE] [--python FILE] [--out FILE]
# qkgeom capture on the GPU beside transformers with PyTorch (sdpa attention) on the same card, taking turns: one long
# document through models of real shapes with random weights, in bf16. Prints tokens/s, peak device memory and the
# ratios, and writes FILE [bench/results/prefill.json], anew after each length, so that an end by the clock loses one.
# FILE of --program [build/release/bin/qkgeom-capture]; of --python [python3]: with torch, transformers, tokenizers;
# where it lacks them, qkgeom capture runs alone if the models are at hand (MODELS_FOLDER).
# SHAPES ["qwen3-0.6b llama-3.1-8b ministral-3-14b"], TOKENS ["32768 131072"], RESIDENT ["all stream"]: how
# qkgeom capture keeps weights; LAYERS [the shape's own]: fewer, and then tokens/s and memory are of those layers alone;
# MODELS_FOLDER [a scratch folder, in /dev/shm where it has 40 GB]; SECONDS_LEFT [no limit]: begins no length that
# would not end by then, as the one before went; DEVICE [cuda]: cpu tries the script out where there is no GPU.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=$root/build/release/bin/qkgeom-capture python=python3 out=$root/bench/results/prefill.json
while (($#)); do
  case $1 in
    --program) program=${2:?--program needs a file}; shift 2 ;;
    --python) python=${2:?--python needs a file}; shift 2 ;;
    --out) out=${2:?--out needs a file}; shift 2 ;;
    -h | --help) sed -n '3,14s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "prefill.sh: unknown argument $1; see --help" >&2; exit 2 ;;
  esac
done
program=$(realpath "$program")
device=${DEVICE:-cuda}
limit=${SECONDS_LEFT:-1000000}
read -ra lengths <<<"${TOKENS:-32768 131072}"
longest=$(printf '%s\n' "${lengths[@]}" | sort -n | tail -1)

scratch=$(mktemp -d)
models=${MODELS_FOLDER:-}
made=''
if [[ -z $models ]]; then
  free=$(df --output=avail -B 1G /dev/shm 2>/dev/null | tail -1 || echo 0)
  ((free >= 40)) && models=$(mktemp -d -p /dev/shm) || models=$(mktemp -d)
  made=$models
fi
echo "prefill.sh: models are in $(df --output=target,fstype,avail -BG "$models" | tail -1)" >&2
sampler=''
trap '[[ -z $sampler ]] || kill $sampler 2>/dev/null; rm -rf "$scratch" ${made:+"$made"}' EXIT

# watched FILE COMMAND... : runs it, standard output to FILE, and writes to FILE.mb the device memory that came on top (MB)
watched() {
  local file=$1 before status=0 i; shift
  if [[ $device == cuda ]] && command -v nvidia-smi >/dev/null; then
    before=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1)
    : >"$scratch/used"
    nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 20 >"$scratch/used" &
    sampler=$!
    for ((i = 0; i < 500; ++i)); do [[ ! -s $scratch/used ]] || break; sleep 0.01; done # it has begun
    "$@" >"$file" || status=$?
    kill $sampler; wait $sampler 2>/dev/null || true
    sampler=''
    sort -n "$scratch/used" | tail -1 | awk -v b="$before" '{ print ($1 - b) * 1.048576 }' >"$file.mb"
  else
    "$@" >"$file" || status=$?
    : >"$file.mb"
  fi
  return $status
}

# ours MODEL TOKENS RESIDENT DOCUMENTS FILE
ours() {
  local where=()
  [[ $device != cuda ]] || where=(--device cuda --resident "$3")
  rm -rf "$scratch/capture"
  watched "$5" "$program" --model "$1" --jsonl "$1/documents.jsonl" --out "$scratch/capture" --max-length "$2" \
    --examples "$4" --bucket-size 8192 --rate 16 --dtype bf16 "${where[@]}" 2>>"$scratch/notes"
}

cat >"$scratch/summarise.py" <<'END'
import json, os, re, sys
scratch, target, shape, tokens, many, resident = sys.argv[1:7]
def read(name):
    path = os.path.join(scratch, name)
    return open(path).read().strip() if os.path.exists(path) else ""
def number(text):
    return float(text) if text else None
entry = {}
theirs = read("theirs")
if theirs:
    entry["transformers"] = {**json.loads(theirs.splitlines()[-1]), "device_mb": number(read("theirs.mb"))}
for kind in resident.split():
    # One document and several: what the others take is free of starting up and of loading what stays.
    found = [re.search(r"(\d+) tokens in .*: (\d+) tokens/s", read(f"ours-{kind}-{n}")) for n in (1, many)]
    if not all(found):
        entry[f"qkgeom_capture_{kind}"] = {"error": (read("notes").splitlines() or ["it did not run"])[-1]}
        continue
    one, all_of_them = (int(f.group(1)) / int(f.group(2)) for f in found)
    each = (all_of_them - one) / (int(many) - 1)
    entry[f"qkgeom_capture_{kind}"] = {"tokens": int(tokens), "seconds": each, "tokens_per_s": int(tokens) / max(each, 1e-9),
                                       "seconds_of_the_first": one, "device_mb": number(read(f"ours-{kind}-{many}.mb"))}
line = f"{shape} {tokens}"
for who, r in entry.items():
    line += f"\n  {who:24}" + (f" {r['error']}" if "error" in r else f" {r['tokens_per_s']:9.0f} tokens/s")
    line += f"  device {r['device_mb']:.0f} MB" if r.get("device_mb") else ""
    line += f"  tensors {r['peak_mb']:.0f} MB" if "peak_mb" in r else ""
    t = entry.get("transformers", {})
    if who != "transformers" and "tokens_per_s" in r and "tokens_per_s" in t:
        r["speed_ratio"] = r["tokens_per_s"] / t["tokens_per_s"]
        line += f"  speed x {r['speed_ratio']:.2f}"
        if r["device_mb"] and t.get("peak_mb"):  # ours with the driver's context, theirs without: the stricter of the ways
            r["memory_ratio"] = r["device_mb"] / t["peak_mb"]
            line += f"  memory x {r['memory_ratio']:.2f}"
print(line, flush=True)
result = json.load(open(target)) if os.path.exists(target) else {}
result.setdefault(shape, {})[tokens] = entry
with open(target, "w") as f:
    json.dump(result, f, indent=1)
    f.write("\n")
END

has_torch=1
"$python" -c 'import torch, transformers, tokenizers' 2>/dev/null || has_torch=0
failed=0
for shape in ${SHAPES:-qwen3-0.6b llama-3.1-8b ministral-3-14b}; do
  model=$models/$shape
  if [[ ! -e $model/model.safetensors ]]; then
    ((has_torch)) || { echo "prefill.sh: $shape is left out: $python cannot import torch, transformers and tokenizers" >&2; continue; }
    ((SECONDS < limit)) || { echo "prefill.sh: $shape is left out: no time" >&2; continue; }
    "$python" "$root/bench/baselines/make_random_model.py" "$shape" "$model" --documents 5 --tokens "$longest" ${LAYERS:+--layers "$LAYERS"} ||
      { echo "prefill.sh: $shape is left out: its model could not be made" >&2; failed=1; rm -rf "$model"; continue; }
  fi
  last=0 before=0
  for tokens in "${lengths[@]}"; do
    # Work grows faster than the length; twice as fast is on the safe side.
    expected=$((before > 0 ? 2 * last * tokens / before : 0))
    if ((SECONDS + expected > limit)); then
      echo "prefill.sh: $shape at $tokens tokens is left out: no time" >&2
      continue
    fi
    start=$SECONDS
    many=$((tokens < longest ? 5 : 3))
    rm -f "$scratch"/{ours,theirs}*
    for resident in ${RESIDENT:-all stream}; do
      for documents in 1 $many; do
        ours "$model" "$tokens" "$resident" $documents "$scratch/ours-$resident-$documents" || { failed=1; break; }
      done
    done
    if ((has_torch)); then
      watched "$scratch/theirs" "$python" "$root/bench/baselines/prefill_transformers.py" "$model" "$model/documents.jsonl" \
        --tokens "$tokens" --device "$device" 2>>"$scratch/notes-theirs" || { failed=1; tail -1 "$scratch/notes-theirs" >&2; }
    fi
    python3 "$scratch/summarise.py" "$scratch" "$out" "$shape" "$tokens" $many "${RESIDENT:-all stream}"
    last=$((SECONDS - start)) before=$tokens
  done
  [[ -z $made ]] || rm -rf "$model"
done
exit $failed
