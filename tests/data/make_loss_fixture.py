#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes losses.json: for each checkpoint of families and its fixture's ids, -ln p(the next id) of every token but the
last, by transformers, in f32 and bf16; of each the mean and some positions.

Usage: make_loss_fixture.py MADE_FAMILIES OUT.json   (of make_family_weights.py; needs torch, transformers, safetensors)
"""
import json
import pathlib
import sys

import torch
from safetensors import safe_open

from make_family_fixtures import families, loaded

POSITIONS = [0, 1, 17, 63, 64, 100, 255, 256, 298]


def losses(folder, kind, scaling, ids, dtype):
    with torch.no_grad():
        logits = loaded(folder, kind, dtype, scaling)(input_ids=ids[None], use_cache=False).logits[0].float()
    return torch.nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="none")


def main():
    result = {}
    for name, (_, kind, scaling) in families().items():
        folder = pathlib.Path(sys.argv[1]) / name
        with safe_open(folder / "forward.safetensors", "pt") as f:
            ids = f.get_tensor("ids").long()
        result[name] = {"positions": POSITIONS}
        for label, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            x = losses(folder, kind, scaling, ids, dtype)
            result[name][label] = {"mean": round(x.double().mean().item(), 7),
                                   "at": [round(x[t].item(), 6) for t in POSITIONS]}
    pathlib.Path(sys.argv[2]).write_text(json.dumps(result).replace("}}, ", "}},\n") + "\n")


if __name__ == "__main__":
    main()
