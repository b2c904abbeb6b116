#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# retrieval.sh [OUT]   Do the heads that see far retrieve? Predicts from documents of 1024 tokens which heads keep a
# matched key 512 tokens and more back, ablates the eight that keep it best, beside random heads of the same layers, and
# beside the heads that AP_drop, bias and the softmax beyond 256 tokens choose. Measures the loss and recall at 512, 2048 and
# 6000 tokens on other documents. OUT: out/retrieval by default. MODEL [the bundled one]: a folder or a GGUF file; TEXTS
# [its held-out books]: JSON lines, of which the first SHORT [6] documents predict and the others are evaluated, DOCUMENTS
# [6] of LENGTH [6600] tokens; RANK [kept]: or reach; TRIALS [12] probes of a kind and distance; DTYPE [f32]. Installs
# missing Debian packages and builds qkgeom. Some ten minutes on two cores; reuses what an earlier run built, captured or
# evaluated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common/prepare.sh"
options retrieval "$@"
prepare choose-heads interventions capture evaluate grip heads
model=${MODEL:-$data/lc-4096-to-8192-step-10} texts=${TEXTS:-$data/heldout.jsonl} short=${SHORT:-6}

step "Capturing $short documents of 1024 tokens"
take() { "$bin/qkgeom" capture --model "$model" --jsonl "$texts" --examples "$short" --max-length 1024 --dtype "${DTYPE:-f32}" --resume "$@"; }
take --sampler all --pre-rope --out "$out/short"
take --bucket-size 64 --rate 24 --moments --softmax --out "$out/softmax"

step "Reach, and the softmax beyond 256 tokens"
"$bin/qkgeom" grip "$out/short" --near 500 --context 6000 --no-figures --out "$out/grip"
"$bin/qkgeom" heads "$out/softmax" --covariance joint --no-figures --out "$out/heads"
awk -F, 'FNR == 1 { split("", at); for (i = 1; i <= NF; ++i) at[$i] = i; next }
  { head = $at["layer"] "," $at["q_head"] }
  FILENAME ~ /distance/ { if ($at["scope"] == "head" && $at["end"] == 1024 && $at["distance_start"] >= 256) mass[head] += $at["mass_rest"] }
  FILENAME ~ /reach/ && $at["from"] >= 512 { kept[head] += $at["kept"]; ++bins[head] }
  FILENAME ~ /grip_heads/ { print head "," $at["reach"] "," kept[head] / bins[head] "," mass[head] }' \
  "$out/heads/softmax_distance.csv" "$out/grip/reach.csv" "$out/grip/grip_heads.csv" | sed '1i layer,q_head,reach,kept,far_mass' >"$out/ranked.csv"

step "Choosing heads, and evaluating the model without each set of them"
"$bin/qkgeom" choose-heads "$out/softmax" --rankings drop_high,bias_high --table "$out/ranked.csv" --columns "${RANK:-kept},far_mass" \
  --interventions ablate --random 2 --out "$out/choice"
evaluate "$out/choice/conditions.json" "$out/evaluation" --model "$model" --jsonl "$texts" --skip-examples "$short" --examples "${DOCUMENTS:-6}" \
  --max-length "${LENGTH:-6600}" --records "$data/records.json" --distances 512,2048,6000 --trials "${TRIALS:-12}" --dtype "${DTYPE:-f32}"

step "Effects"
"$bin/qkgeom" interventions "$out/evaluation" --out "$out/effects"

step "Done. docs/grip.md reads these tables."
