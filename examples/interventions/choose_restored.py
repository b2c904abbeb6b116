#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Chooses heads to restore: conditions.json for `qkgeom evaluate --restore-from BASE`, and restored_heads.csv.

Usage: choose_restored.py BASE TUNED BEFORE AFTER OUT [--counts 1,2,4,8] [--random 20] [--seed 0]

BASE and TUNED are checkpoints of one shape with q_proj and k_proj. BEFORE and AFTER are folders of `qkgeom grip` for the
same documents; `geometry` ranks by what heads lose from BEFORE to AFTER, `weights` by the relative change of their
weights. A unit is a key head with the query heads that read it. Conditions are NAME-COUNT/chosen/restore,
NAME-COUNT/random-N/restore (units drawn from the same layers, as many in each; sets differ, so that there are all of them
where these are few), all-COUNT/chosen/restore, and LAYER.HEAD/chosen/restore for every unit alone.
"""
import argparse
import array
import csv
import json
import math
import os
import random


def tensors(folder):
    """Returns a function that reads a BF16 tensor of a checkpoint as a list of floats."""
    index = os.path.join(folder, "model.safetensors.index.json")
    files = json.load(open(index))["weight_map"] if os.path.exists(index) else {}

    def read(name):
        with open(os.path.join(folder, files.get(name, "model.safetensors")), "rb") as f:
            size = int.from_bytes(f.read(8), "little")
            entry = json.loads(f.read(size))[name]
            assert entry["dtype"] == "BF16", f"{folder}: {name} is {entry['dtype']}, not BF16"
            f.seek(8 + size + entry["data_offsets"][0])
            bits = array.array("H", f.read(entry["data_offsets"][1] - entry["data_offsets"][0]))
        wide = array.array("I", [b << 16 for b in bits])
        return array.array("f", wide.tobytes())
    return read


def weight_changes(base, tuned, units, keys):
    """Returns the relative change of the rows of q_proj and k_proj that belong to each unit (layer, key head)."""
    of_base, of_tuned, changes = tensors(base), tensors(tuned), {}
    for layer in {layer for layer, _ in units}:
        pairs = [(of_base(n), of_tuned(n)) for n in (f"model.layers.{layer}.self_attn.{x}_proj.weight" for x in "qk")]
        for key in range(keys):
            moved = size = 0.0
            for old, new in pairs:  # a key head and its query heads have one share of the rows of k_proj and of q_proj
                rows = slice(len(old) // keys * key, len(old) // keys * (key + 1))
                moved += math.fsum((a - b) ** 2 for a, b in zip(old[rows], new[rows]))
                size += math.fsum(a * a for a in old[rows])
            changes[layer, key] = math.sqrt(moved / size)
    return changes


def losses_of_grip(before, after, context):
    """Returns what each unit loses: mean over its heads of the top-8 grip of both needles, and of reach over the context."""
    heads = [list(csv.DictReader(open(os.path.join(f, "grip_heads.csv")))) for f in (before, after)]
    falls = {}
    for old, new in zip(*heads):
        assert (old["layer"], old["q_head"]) == (new["layer"], new["q_head"])
        fall = sum(float(old[c]) - float(new[c]) for c in ("winner_8", "matched_8"))
        fall += (float(old["reach"]) - float(new["reach"])) / context
        falls.setdefault((int(old["layer"]), int(old["k_head"])), []).append(fall)
    return {unit: math.fsum(x) / len(x) for unit, x in falls.items()}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("base", "tuned", "before", "after", "out"):
        p.add_argument(name)
    p.add_argument("--counts", default="1,2,4,8")
    p.add_argument("--random", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    config = json.load(open(os.path.join(a.tuned, "config.json")))
    queries, keys = config["num_attention_heads"], config["num_key_value_heads"]
    geometry = losses_of_grip(a.before, a.after, config["max_position_embeddings"])
    units = sorted(geometry)
    scores = {"geometry": geometry, "weights": weight_changes(a.base, a.tuned, units, keys)}
    draw, conditions = random.Random(a.seed), []

    def add(name, chosen):
        heads = [f"{layer}.{key * queries // keys}" for layer, key in sorted(chosen)]
        conditions.append({"name": f"{name}/restore", "changes": [{"head": h, "restore": "shared_keys"} for h in heads]})

    for ranking, score in scores.items():
        order = sorted(units, key=lambda u: -score[u])
        for count in map(int, a.counts.split(",")):
            chosen = order[:count]
            add(f"{ranking}-{count}/chosen", chosen)
            layers = {layer: [u for u in units if u[0] == layer] for layer in sorted({layer for layer, _ in chosen})}
            of = {layer: sum(c[0] == layer for c in chosen) for layer in layers}
            sets = {}  # in the order of the draws
            while len(sets) < min(a.random, math.prod(math.comb(len(layers[x]), of[x]) for x in layers)):
                sets[tuple(sorted(u for x in layers for u in draw.sample(layers[x], of[x])))] = True
            for n, drawn in enumerate(sets, 1):
                add(f"{ranking}-{count}/random-{n}", drawn)
    add(f"all-{len(units)}/chosen", units)
    for layer, key in units:
        add(f"{layer}.{key * queries // keys}/chosen", [(layer, key)])
    os.makedirs(a.out, exist_ok=True)
    json.dump({"conditions": conditions}, open(os.path.join(a.out, "conditions.json"), "w"), indent=0)
    with open(os.path.join(a.out, "restored_heads.csv"), "w") as f:
        f.write("layer,k_head,q_head,geometry,weights\n")
        for layer, key in units:
            f.write(f"{layer},{key},{key * queries // keys},{geometry[layer, key]},{scores['weights'][layer, key]}\n")


main()
