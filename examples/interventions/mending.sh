#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mending.sh [OUT]   Which heads did short tuning break, and does geometry know? Predicts grip and reach of the bundled model
# before and after it was tuned on 256 tokens, from 1024 tokens of four books; restores the queries and keys of the heads that
# lost most, of the heads whose weights changed most, and of random heads of the same layers, and measures the loss and recall
# in 4096 tokens of eight other books. Then the same for the extension from 4096 to 8192 tokens, whose heads get their old
# weights back. OUT: out/mending by default. Installs missing Debian packages and builds qkgeom. Ten minutes on two cores.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common/prepare.sh"
options mending "$@"
prepare grip interventions capture evaluate
head -4 "$data/heldout.jsonl" >"$out/chosen-on.jsonl"
tail -n 8 "$data/heldout.jsonl" >"$out/judged-on.jsonl"
short=$data/lc-512-to-4096-step-80 tuned=$data/short-256-step-300 long=$data/lc-4096-to-8192-step-10

grip() { # NAME LENGTH MODEL OPTIONS...: predicts each head's grip and reach at LENGTH
  "$bin/qkgeom" capture --model "$3" --jsonl "$out/chosen-on.jsonl" --max-length 1024 --sampler all --pre-rope \
    "${@:4}" --out "$out/captures/$1" --resume
  "$bin/qkgeom" grip "$out/captures/$1" --context "$2" --no-figures --out "$out/grip/$1"
}
judge() { # NAME MODEL LENGTH OPTIONS...: evaluates the model with each set of heads restored
  "$bin/qkgeom" evaluate --model "$2" --jsonl "$out/judged-on.jsonl" --max-length "$3" "${@:4}" --loss-bucket-size 256 \
    --out "$out/$1"
}

step "Heads that tuning on 256 tokens broke"
grip before 4096 "$short"
grip after 4096 "$tuned"
python3 examples/interventions/choose_restored.py "$short" "$tuned" "$out/grip/before" "$out/grip/after" "$out/choice"
judge restored "$tuned" 4096 --restore-from "$short" --conditions "$out/choice/conditions.json"
"$bin/qkgeom" interventions "$out/restored" --out "$out/effects"

step "Recall of the base and the tuned model, and of all heads restored"
python3 - "$out" <<'END'
import json, sys
file = json.load(open(f"{sys.argv[1]}/choice/conditions.json"))
file["conditions"] = [c for c in file["conditions"] if c["name"].startswith(("all", "geometry-8/chosen", "weights-8/chosen"))]
json.dump(file, open(f"{sys.argv[1]}/choice/few.json", "w"))
END
probes=(--records "$data/records.json" --distances 230,1843 --trials 20)
judge recall-before "$short" 4096 "${probes[@]}"
judge recall "$tuned" 4096 --restore-from "$short" --conditions "$out/choice/few.json" "${probes[@]}"
"$bin/qkgeom" interventions "$out/recall" --out "$out/recall-effects"

step "Heads that the extension to 8192 tokens mended, put back"
grip old 8192 "$short" --rope-theta 1e6
grip extended 8192 "$long"
python3 examples/interventions/choose_restored.py "$short" "$long" "$out/grip/extended" "$out/grip/old" "$out/back" --counts 4
judge put-back "$long" 8192 --examples 4 --restore-from "$short" --conditions "$out/back/conditions.json"
"$bin/qkgeom" interventions "$out/put-back" --out "$out/back-effects"

step "Done. docs/mending.md reads these tables."
