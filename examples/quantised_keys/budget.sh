#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# budget.sh [OUT]   Which key heads need which bits? Counts the pairs of keys that llama.cpp's cache types flip in every head of
# the bundled model, on four held-out books of 2048 tokens, chooses a type per key head for budgets of 5, 5.5 and 6 bits, and
# measures the loss of the eight other books with these tables, uniform types, and tables dealt at random. OUT:
# out/quantised_keys by default. Installs missing Debian packages and builds qkgeom. Some minutes on two cores; reuses what an
# earlier run built or captured.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common/prepare.sh"
options quantised_keys "$@"
prepare quantised-keys cache-losses capture evaluate

model=$data/lc-512-to-4096-step-80
documents=(--jsonl "$data/heldout.jsonl" --max-length 2048)

step "Capturing queries and keys of all heads on four books"
"$bin/qkgeom" capture --model "$model" "${documents[@]}" --examples 4 --rate 48 --out "$out/capture" --resume

step "Rounding keys, and choosing types"
"$bin/qkgeom" quantised-keys "$out/capture" --out "$out/rounded"

step "The loss of eight other books under every table"
"$bin/qkgeom" evaluate --model "$model" "${documents[@]}" --skip-examples 4 --conditions "$out/rounded/conditions.json" \
  --out "$out/evaluation"
"$bin/qkgeom" cache-losses "$out/evaluation" --out "$out/losses"

step "Done. docs/beyond.md reads these tables."
