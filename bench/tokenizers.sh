#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tokenizers.sh [PROGRAM] [PYTHON]
# Megabytes of text a CPU second, of each tokenizer scheme, beside the `tokenizers` library in the same run: the held-out books,
# and 10 MB of one letter, of capitals, of spaces and of one endless word, of which the library gets the first megabyte and where
# it does not give up must have as many ids. Prints a table, writes bench/results/tokenizers.json.
# PROGRAM [build/native/bin/tokenizer_bench]; PYTHON [python3] needs tokenizers.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1-} in
  -h | --help) sed -n '3,7s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
program=${1:-$root/build/native/bin/tokenizer_bench}
python=${2:-python3}
[[ -x $program ]] || { echo "$program is not there: cmake --preset native && cmake --build --preset native" >&2; exit 2; }
"$python" -c 'import tokenizers' 2>/dev/null || { echo "$python lacks the module tokenizers" >&2; exit 2; }
program=$(realpath "$program")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mkdir "$scratch/texts"
"$program" --write "$scratch/texts"
schemes=("$root/examples/data/kjv-smollm3/tokenizer.json")
for file in "$root"/tests/data/tokenizers/*.json; do
  [[ $file == */ids.json || $file == */texts.json || $file == */long-line.json ]] || schemes+=("$file")
done
load=$(cut -d' ' -f1 /proc/loadavg)
"$program" --benchmark_out="$scratch/ours.json" --benchmark_out_format=json >/dev/null 2>&1
"$python" "$root/bench/baselines/tokenizers_library.py" "$scratch/texts" "${schemes[@]}" >"$scratch/theirs.json" 2>/dev/null

"$python" - "$scratch" "$root/bench/results/tokenizers.json" "$(lscpu | sed -n 's/^Model name: *//p')" "$load" <<'END'
import json, sys
scratch, target, cpu, load = sys.argv[1:]
theirs = json.load(open(f"{scratch}/theirs.json"))
result = {"command": "bench/tokenizers.sh", "cpu": cpu, "load_average_at_the_start": float(load), "threads": 1,
          "tokenizers": theirs.pop("version"), "benchmarks": {}}
print(f"{'':26}{'ours MB/s':>11}{'library':>10}{'ratio':>8}")
for run in json.load(open(f"{scratch}/ours.json"))["benchmarks"]:
    name = run["name"].split("/min_time")[0]
    entry = {"bytes_per_s": run["bytes_per_s"]}
    line = f"{name:26}{entry['bytes_per_s'] / 1e6:11.1f}"
    if name in theirs:
        entry |= {"ids": int(run["ids"]), "cpu_seconds": run["bytes"] / run["bytes_per_s"], "library_bytes_per_s": None}
        line += "  gives up" if theirs[name] is None else ""
    if t := theirs.get(name):
        assert t["ids"] == run["compared_ids"], f"{name}: {run['compared_ids']} ids, the library has {t['ids']}"
        entry |= {"library_bytes_per_s": t["bytes_per_s"], "ratio": run["bytes_per_s"] / t["bytes_per_s"]}
        line += f"{t['bytes_per_s'] / 1e6:10.2f}{entry['ratio']:8.1f}"
    print(line)
    result["benchmarks"][name] = entry
with open(target, "w") as f:
    json.dump(result, f, indent=1)
    f.write("\n")
END
