#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# plasticity --preset attention-plasticity against the tables of that tool for the same captures.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
plasticity() { run plasticity "${@:2}" --out "$work/$1"; }
fails() { refused "$1" plasticity "${@:2}" --out "$work/x"; }

for capture in long-f32 long-bf16 short-bf16; do
  plasticity "$capture" "$golden/$capture.safetensors" --preset attention-plasticity --threads 2
  grep -q ap_overall "$work/stdout" || bad "$capture: no summary"
  [[ $(ls "$work/$capture") == $'columns.csv\nhead_bucket_plasticity.csv\nhead_component_weights.csv\nhead_metrics.csv' ]] ||
    bad "$capture: $(ls "$work/$capture")"
  python3 - "$work" "$capture" "$golden" <<'END' || bad "$capture: metrics" # author_analysis_test.cpp compares more closely
from written import *
capture, golden = sys.argv[2:]
for a, b in zip(rows(f"{capture}/head_metrics.csv"), csv.DictReader(open(f"{golden}/author-{capture}.head_metrics.csv")), strict=True):
    assert a.keys() == b.keys(), a
    for name, y in b.items():
        bound = 5e-3 if name == "ap_overall" else 1e-2 * float(y) if name.endswith("_ks_p") else 1e-9 * max(1, abs(float(y)))
        assert abs(float(a[name]) - float(y)) <= bound, (name, a, b)
END
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
