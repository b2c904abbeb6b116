#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# interventions.sh [OUT]   Does plasticity mean what it says? Of the bundled model at 4096 tokens, the heads with the
# lowest and highest plasticity, the largest drop and the strongest position bias are ablated, and their keys' drift taken
# away, beside random heads of the same layers; measured are the held-out loss near and far, and whether the model finds
# again what stood before. OUT: out/interventions by default. Installs the Debian packages that are missing and builds
# qkgeom. About ten minutes on two cores; what an earlier run has built, captured or evaluated is used again.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common/prepare.sh"
options interventions "$@"
prepare choose_heads interventions qkgeom-capture qkgeom-evaluate

model=$data/lc-512-to-4096-step-80 length=4096

step "Capturing queries and keys of all heads"
"$bin/qkgeom-capture" --model "$model" --jsonl "$data/heldout.jsonl" --max-length $length --bucket-size $((length / 16)) \
  --rate 24 --moments --out "$out/capture" --resume

step "Choosing heads"
"$bin/choose_heads" "$out/capture" --out "$out/choice"

step "Evaluating the model as it is and with each set of heads changed"
if cmp -s "$out/choice/conditions.json" "$out/evaluation/conditions.json"; then
  echo "$out/evaluation has these conditions already"
else
  "$bin/qkgeom-evaluate" --model "$model" --jsonl "$data/heldout.jsonl" --max-length $length --conditions "$out/choice/conditions.json" \
    --records "$data/records.json" --distances 409,1843 --trials 20 --out "$out/evaluation"
  cp "$out/choice/conditions.json" "$out/evaluation/conditions.json"
fi

step "Effects"
"$bin/interventions" "$out/evaluation" --out "$out/effects"

step "Done. docs/interventions.md reads these tables."
