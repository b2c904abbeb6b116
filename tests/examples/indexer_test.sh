#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The heads of an indexer go through the programs as the attention's do: heads and grip on a capture of a tiny GLM 5, from
# rows before and after the rotation.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
mkdir "$work/model"
cp "$model/tokenizer.json" "$work/model"
python3 - "$QKGEOM_SOURCE/tests/data/families/glm-5" "$model/stage1-step-1000" "$work/model" <<'END'
import json, sys
config, other = (json.load(open(f"{folder}/config.json")) for folder in sys.argv[1:3])
json.dump({**config, "vocab_size": other["vocab_size"]}, open(f"{sys.argv[3]}/config.json", "w"))
END
for stage in post pre; do
  flags=()
  [[ $stage == pre ]] && flags=(--pre-rope)
  run capture --model "$work/model" --untrained 1 --jsonl "$model/heldout.jsonl" --examples 4 --max-length 256 --sampler all \
    --heads-of indexer "${flags[@]}" --out "$work/$stage"
  run grip "$work/$stage" --near 64 --context 512 --queries 32 --no-figures --out "$work/grip-$stage"
  [[ $(column "$work/grip-$stage/grip_heads.csv" layer | sort | uniq -c | xargs) == "18 0 18 2" ]] ||
    bad "grip of $stage: $(head -3 "$work/grip-$stage/grip_heads.csv")"
done
run heads "$work/post" --no-figures --out "$work/heads"
grep -q 'note: the heads are those of indexers' "$work/stdout" || bad "no note: $(cat "$work/stdout")"
grep -q '^.*,indexer_heads,' "$work/heads/notes.csv" || bad "notes.csv: $(cat "$work/heads/notes.csv")"
python3 - "$work" <<'END' || bad "heads or grip of the indexer"
from written import *
heads = rows("heads/heads.csv")
assert len(heads) == 36 and all(h["k_head"] == "0" and h["rope"] == "1" for h in heads)
assert all(0 <= float(h["ap_overall"]) <= 1 for h in heads)
pre, post = (rows(f"grip-{stage}/grip.csv") for stage in ("pre", "post"))
assert len(pre) == len(post) > 36
for a, b in zip(pre, post):  # rows from after the rotation are turned back
    assert abs(float(a["grip"]) - float(b["grip"])) < 0.02, (a, b)
END

# What changes or serves the attention's heads takes no capture of others.
for program in "bands $work/post --conditions" "choose-heads $work/post" "quantised-keys $work/post" "export --for all $work/pre"; do
  refused 'holds the heads of indexers' $program --out "$work/none"
done
