#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# qkgeom thesis --captures: captures of all models decide the claims that no table decides, a part of them shows its
# numbers. One small capture stands for each model.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
tables=$QKGEOM_SOURCE/examples/thesis/data
capture=$golden/short-bf16.safetensors
claim() { # OUT ID COLUMN: prints what stands there
  python3 -c 'import csv, sys; print(next(r for r in csv.DictReader(open(sys.argv[1])) if r["id"] == sys.argv[2])[sys.argv[3]])' \
    "$work/$1/claims.csv" "$2" "$3"
}
undecided() { awk -F, '/,undecided,/' "$work/$1/claims.csv" | wc -l; }
models=$(awk -F, 'NR > 1 { print $1 }' "$tables/studies.csv" | sort -u)

run thesis "$tables" --out "$work/none" --no-figures
[[ $(undecided none) == 17 ]] || bad "$(undecided none) claims are undecided without captures"

run thesis "$tables" --out "$work/one" --no-figures --captures "qwen3-8b=$capture"
[[ $(undecided one) == 17 ]] || bad "one model of 11 decides $((17 - $(undecided one))) claims"
[[ $(claim one r_q_axis recomputed) == *'over 1 of 11 models' ]] || bad "one model: $(claim one r_q_axis recomputed)"
[[ $(claim one r_q_axis note) == *ministral3-3b* ]] || bad "the missing models are not named: $(claim one r_q_axis note)"

given=()
for model in $models; do given+=("$model=$capture"); done
run thesis "$tables" --out "$work/all" --no-figures --captures "${given[@]}"
[[ $(undecided all) == 0 ]] || bad "undecided with captures of all models: $(grep ,undecided, "$work/all/claims.csv")"
run pca "$capture" --out "$work/pca"
run rotation "$capture" --out "$work/rotation"
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a - b < 5e-4 && b - a < 5e-4) }'; }
mean() { column "$1" "$2" | awk '{ s += $1 < 0 ? -$1 : $1 } END { print s / NR }'; }
near "$(claim all r_k_axis recomputed)" "$(mean "$work/rotation/rotated.csv" r_k_a)" || bad "r_k_axis: $(claim all r_k_axis recomputed)"
first=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i; next } $at["pc"] == 0 { s += $at["explained_variance"]; ++n } END { print s / n }' "$work/pca/qk.csv")
near "$(claim all pc0_share recomputed)" "$first" || bad "pc0_share: $(claim all pc0_share recomputed), not $first"
negative=$(column "$work/rotation/rotated.csv" bias_strength | grep -c '^-')
[[ $(claim all primacy_heads recomputed) == $((11 * negative)) ]] || bad "primacy_heads: $(claim all primacy_heads recomputed)"

refused "none of the thesis' models" thesis "$tables" --out "$work/x" --captures "gpt=$capture"
refused "there twice" thesis "$tables" --out "$work/x" --captures "qwen3-8b=$capture" "qwen3-8b=$capture"
refused "names no study" thesis "$tables" --out "$work/x" --captures "$capture"
