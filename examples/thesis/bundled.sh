#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bundled.sh [OUT]   Chapter 6 of the thesis on the bundled model's training, in one command on a CPU. OUT: out/bundled by
# default. Installs missing Debian packages, builds qkgeom, captures the queries and keys of all heads of seven checkpoints
# on the same held-out books, each at its own context, and runs the analyses of chapter 6: dynamics (6.3),
# compare (6.1, 6.2, 6.4, A.1 to A.3), drop-split before and after the extension of the context (H6), heads of the
# last checkpoint by testament. Reuses what an earlier run built or captured. docs/reproduction.md reads the result.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common/prepare.sh"
options bundled "$@"
prepare capture dynamics compare drop-split heads

annealed=stage3-step-150 extended=lc-512-to-4096-step-80 last=lc-4096-to-8192-step-10
families=early,early,pre-training,pre-training,pre-training,extension,extension

# Labels the held-out books with their testament: seven of the old, then five of the new.
sed '1,7s/^{/{"testament": "old", /; 8,$s/^{/{"testament": "new", /' "$data/heldout.jsonl" >"$out/heldout.jsonl"

step "Capturing queries and keys of all heads of ${#checkpoints[@]} checkpoints"
captures=()
echo "checkpoint,heldout_loss" >"$out/loss.csv"
for checkpoint in "${checkpoints[@]}"; do
  length=$(field "$data/$checkpoint/config.json" max_position_embeddings)
  "$bin/qkgeom" capture --model "$data/$checkpoint" --jsonl "$out/heldout.jsonl" --label-fields testament --max-length "$length" \
    --heads all --bucket-size $((length / 16)) --rate 24 --seed 0 --out "$out/captures/$checkpoint" --resume
  captures+=("$out/captures/$checkpoint")
  echo "$checkpoint,$(field "$data/$checkpoint/training_state.json" heldout_loss)" >>"$out/loss.csv"
done
sed '1s/checkpoint/model/' "$out/loss.csv" >"$out/scores.csv"

step "6.3 Training dynamics: table 6.2, figures 6.5, 6.6, A.4"
"$bin/qkgeom" dynamics "${captures[@]}" --loss "$out/loss.csv" --out "$out/dynamics" | tee "$out/dynamics.txt"

step "6.1, 6.2, 6.4 Checkpoints side by side: tables 6.1, A.1, figures 6.1 to 6.4, 6.7, A.1 to A.3, A.5"
"$bin/qkgeom" compare "${captures[@]}" --families "$families" --scores "$out/scores.csv" --pair "$extended,$annealed" \
  --pair "$last,$annealed" --pair "$last,$extended" --out "$out/models" | tee "$out/models.txt"

step "H6 Why plasticity falls: before extension, after it"
for checkpoint in $annealed $extended $last; do
  "$bin/qkgeom" drop-split "$out/captures/$checkpoint" --out "$out/drops/$checkpoint" | tee "$out/drops-$checkpoint.txt"
done

step "Every head of the last checkpoint, by testament"
"$bin/qkgeom" heads "$out/captures/$last" --out "$out/heads" --group-by testament | tee "$out/heads.txt"

step "Done: $out. docs/reproduction.md reads these results."
