#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# interventions.sh [OUT]   Do heads of different plasticity do different work? Ablates the heads of the bundled model with
# the lowest and highest plasticity, the largest drop and the strongest position bias, or removes their keys' drift, beside
# random heads of the same layers. Measures the held-out loss near and far in 4096 tokens, and whether the model finds
# earlier text again. OUT: out/interventions by default. Installs missing Debian packages and builds qkgeom. About ten
# minutes on two cores; reuses what an earlier run built, captured or evaluated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common/prepare.sh"
options interventions "$@"
prepare choose-heads interventions capture evaluate

model=$data/lc-512-to-4096-step-80 length=4096

step "Capturing queries and keys of all heads"
"$bin/qkgeom" capture --model "$model" --jsonl "$data/heldout.jsonl" --max-length $length --bucket-size $((length / 16)) \
  --rate 24 --moments --out "$out/capture" --resume

step "Choosing heads"
"$bin/qkgeom" choose-heads "$out/capture" --out "$out/choice"

step "Evaluating the model, unchanged and with each set of heads changed"
evaluate "$out/choice/conditions.json" "$out/evaluation" --model "$model" --jsonl "$data/heldout.jsonl" --max-length $length \
  --records "$data/records.json" --distances 409,1843 --trials 20

step "Effects"
"$bin/qkgeom" interventions "$out/evaluation" --out "$out/effects"

step "Done. docs/interventions.md reads these tables."
