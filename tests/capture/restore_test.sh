#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A checkpoint that `qkgeom evaluate --write` wrote: transformers loads it, its logits are those of rows put in place by hand,
# and its loss is the one of the condition. Needs python3 with torch and transformers ($QKGEOM_PYTHON, or the one on the path);
# skipped if there is none. Run with QKGEOM_BIN and QKGEOM_SOURCE set, in a scratch folder.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/common/find_python.sh"
find_python "torch, transformers, safetensors"
source "$QKGEOM_SOURCE/tests/examples/common.sh"

data=$QKGEOM_SOURCE/examples/data/kjv-smollm3
cat >"$work/conditions.json" <<'END'
{"conditions": [{"name": "mixed", "changes": [{"head": "2.6", "restore": "query"}, {"head": "5.1", "restore": "shared_keys"}]}]}
END
cp -r "$data/stage2-step-1400" "$work/model" && cp "$data/tokenizer.json" "$work/model"
restore=(--model "$work/model" --conditions "$work/conditions.json" --restore-from "$data/stage3-step-150")
documents=(--jsonl "$data/heldout.jsonl" --examples 1 --max-length 256)
run evaluate "${restore[@]}" --write "$work/mixed"
run evaluate "${restore[@]}" "${documents[@]}" --out "$work/evaluation"
HF_HUB_OFFLINE=1 "$python" -B - "$work" "$data" <<'END' || bad "transformers disagrees"
import csv, json, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
work, data = sys.argv[1:]
load = lambda path: AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
written, mixed, base = load(f"{work}/mixed"), load(f"{work}/model"), load(f"{data}/stage3-step-150")
with torch.no_grad():
    for layer, name, rows in ((2, "q_proj", slice(6 * 32, 7 * 32)), (5, "q_proj", slice(0, 4 * 32)), (5, "k_proj", slice(0, 32))):
        to, source = (getattr(m.model.layers[layer].self_attn, name).weight for m in (mixed, base))
        assert not torch.equal(to[rows], source[rows])
        to[rows] = source[rows]
    text = json.loads(open(f"{data}/heldout.jsonl").readline())["text"]
    ids = torch.tensor([AutoTokenizer.from_pretrained(f"{work}/mixed")(text)["input_ids"][:256]])
    logits = written(ids).logits
    assert torch.equal(logits, mixed(ids).logits), (logits - mixed(ids).logits).abs().max()
    loss = torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:]).item()
rows = [r for r in csv.DictReader(open(f"{work}/evaluation/condition_loss.csv")) if r["condition"] == "mixed"]
found = sum(float(r["loss"]) * int(r["tokens"]) for r in rows) / sum(int(r["tokens"]) for r in rows)
assert abs(found - loss) < 1e-4, (found, loss)
END
refused "needs --conditions and --restore-from" evaluate --model "$work/model" --write "$work/x"
refused "--write excludes --plan" evaluate "${restore[@]}" --plan --write "$work/x"
