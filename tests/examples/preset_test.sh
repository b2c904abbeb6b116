#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# plasticity --preset attention-plasticity against the tables of that tool for the same captures.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
plasticity() { run plasticity "${@:2}" --out "$work/$1"; }
fails() { refused "$1" plasticity "${@:2}" --out "$work/x"; }

cat >"$work/compare.py" <<'END'
import csv, sys
ours, theirs = ([*csv.DictReader(open(f))] for f in sys.argv[1:3])
assert [*ours[0]] == [*theirs[0]], f"columns {[*ours[0]]}, not {[*theirs[0]]}"
assert len(ours) == len(theirs), f"{len(ours)} rows, not {len(theirs)}"
# The tool draws pairs, qkgeom takes all: checks the mean over cells; tests/report checks each cell.
drawn = [float(a["ap_bucket"]) - float(b["ap_bucket"]) for a, b in zip(ours, theirs) if "ap_bucket" in a]
assert abs(sum(drawn)) <= 2e-3 * len(drawn), f"ap_bucket is off by {sum(drawn) / len(drawn)} on average"
for i, (a, b) in enumerate(zip(ours, theirs)):
    for name in set(a) - {"ap_bucket"}:
        x, y = float(a[name]), float(b[name])
        bound = 5e-3 if name == "ap_overall" else 1e-2 * y if name.endswith("_ks_p") else 1e-9 * max(1, abs(y))
        assert abs(x - y) <= bound, f"row {i} {name}: {x}, not {y}"
END
for capture in long-f32 long-bf16 short-bf16; do
  plasticity "$capture" "$golden/$capture.safetensors" --preset attention-plasticity --threads 2
  grep -q ap_overall "$work/stdout" || bad "$capture: no summary"
  [[ $(ls "$work/$capture") == $'columns.csv\nhead_bucket_plasticity.csv\nhead_component_weights.csv\nhead_metrics.csv' ]] ||
    bad "$capture: $(ls "$work/$capture")"
  for table in head_metrics head_bucket_plasticity; do
    python3 "$work/compare.py" "$work/$capture/$table.csv" "$golden/author-$capture.$table.csv" || bad "$capture $table"
  done
done
[[ $(wc -l <"$work/long-f32/head_component_weights.csv") == $((1 + 5 * 32)) ]] || bad "component weights"

plasticity one "$golden/long-f32.safetensors" --preset attention-plasticity --threads 1
cmp "$work/one/head_metrics.csv" "$work/long-f32/head_metrics.csv" || bad "the metrics depend on the threads"
cmp "$work/one/head_bucket_plasticity.csv" "$work/long-f32/head_bucket_plasticity.csv" || bad "the cells depend on the threads"
plasticity few "$golden/long-f32.safetensors" --preset attention-plasticity --max-tokens 500 --max-dims 4 --alpha 0.5 --seed 3
[[ $(cut -d, -f4,5 "$work/few/head_metrics.csv" | sort -u | tr '\n' ' ') == "500,500 n_q_tokens,n_k_tokens " ]] ||
  bad "--max-tokens: $(cut -d, -f4,5 "$work/few/head_metrics.csv")"
plasticity wide "$golden/long-f32.safetensors" --preset attention-plasticity --bucket-size 2048
[[ $(wc -l <"$work/wide/head_bucket_plasticity.csv") == $((1 + 5 * 6)) ]] || bad "--bucket-size: not 6 cells a head"

fails attention-plasticity "$golden/long-f32.safetensors" --preset mine
fails --preset "$golden/long-f32.safetensors" --alpha 0.1
fails --alpha "$golden/long-f32.safetensors" --preset attention-plasticity --alpha 2
fails nowhere "$work/nowhere" --preset attention-plasticity
