#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# trajectory.sh [OUT]   From the bundled model's checkpoints to tables and figures of its training, in one command on a
# CPU. OUT: out/trajectory by default. Installs missing Debian packages, builds qkgeom, captures the queries and keys of
# all heads of seven checkpoints on the same held-out books, and follows the geometry of the heads along the training:
# OUT/own has each checkpoint at its own context (512, 4096, 8192 tokens), OUT/same all of them at the shortest. Reuses
# what an earlier run built or captured.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common/prepare.sh"
options trajectory "$@"
prepare dynamics capture

shortest=512

# One checkpoint at one context length: 16 buckets, up to 24 tokens of each bucket and book.
capture() { # CHECKPOINT LENGTH
  "$bin/qkgeom" capture --model "$data/$1" --jsonl "$data/heldout.jsonl" --max-length "$2" --heads all \
    --bucket-size $(($2 / 16)) --rate 24 --seed 0 --out "$out/captures/$1-at-$2" --resume
}

step "Capturing queries and keys of all heads of ${#checkpoints[@]} checkpoints"
own=() same=()
labels=$(IFS=,; echo "${checkpoints[*]}")
echo "checkpoint,heldout_loss" >"$out/loss.csv"
for checkpoint in "${checkpoints[@]}"; do
  length=$(field "$data/$checkpoint/config.json" max_position_embeddings)
  capture "$checkpoint" "$length"
  ((length == shortest)) || capture "$checkpoint" "$shortest"
  own+=("$out/captures/$checkpoint-at-$length")
  same+=("$out/captures/$checkpoint-at-$shortest")
  echo "$checkpoint,$(field "$data/$checkpoint/training_state.json" heldout_loss)" >>"$out/loss.csv"
done

step "Training dynamics, each checkpoint at its own context"
"$bin/qkgeom" dynamics "${own[@]}" --labels "$labels" --loss "$out/loss.csv" --out "$out/own"

step "Training dynamics, all checkpoints at $shortest tokens"
"$bin/qkgeom" dynamics "${same[@]}" --labels "$labels" --loss "$out/loss.csv" --out "$out/same"

step "Done. docs/training-dynamics.md reads these tables; build/native/bin/qkgeom dynamics --help has the options."
