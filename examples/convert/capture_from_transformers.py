#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Captures queries and keys of a model that transformers runs, in one file that every program of qkgeom reads.

Usage: capture_from_transformers.py MODEL TEXTS.jsonl OUT.safetensors [options]
For models that qkgeom capture does not read, and as a beginning for captures of your own: `main` is all of it. Needs torch,
transformers and numpy, and memory for the model and for the rows that are kept.
"""
import argparse
import json
import pathlib

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from capture_files import ConversionError, SafetensorsWriter, run


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", help="folder of a checkpoint, or its name on the hub")
    p.add_argument("texts", type=pathlib.Path, help="JSON lines with a field text, and id if documents have names")
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--max-length", type=int, default=4096, help="tokens at which documents are cut (4096)")
    p.add_argument("--rows", type=int, default=512, help="positions that are kept of each document (512)")
    p.add_argument("--dtype", default="auto", help="of the computation: auto (the checkpoint's), float32, bfloat16")
    p.add_argument("--nope-layers", type=int, nargs="*", help="layers without RoPE, where the config does not name them")
    a = p.parse_args()

    layers, kept = {}, None
    inner = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def capture(module, query, key, *args, **kwargs):
        """Stands in for the attention: (1, heads, tokens, head size), after RoPE, before key heads are repeated."""
        layer = layers.setdefault(module.layer_idx, {"q": [], "k": [], "window": kwargs.get("sliding_window"),
                                                     "scale": kwargs.get("scaling")})
        layer["q"].append(query[0, :, kept].transpose(0, 1).float().cpu().numpy())
        layer["k"].append(key[0, :, kept].transpose(0, 1).float().cpu().numpy())
        return inner(module, query, key, *args, **kwargs)

    ALL_ATTENTION_FUNCTIONS["sdpa"] = capture
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=a.dtype, attn_implementation="sdpa").eval()
    rng, examples, positions = np.random.default_rng(0), [], []
    for index, line in enumerate(open(a.texts)):
        document = json.loads(line)
        ids = tokenizer(document["text"], return_tensors="pt").input_ids[:, : a.max_length]
        kept = np.sort(rng.choice(ids.shape[1], min(a.rows, ids.shape[1]), replace=False))  # the same in every layer
        with torch.inference_mode():
            model(ids, use_cache=False)
        examples.append({"index": index, "id": str(document.get("id", index)), "tokens": ids.shape[1]})
        positions.append(kept)
    if not layers:
        raise ConversionError(f"{a.model}: no attention ran through transformers' attention interface")

    position = np.concatenate(positions).astype(np.int32)
    example = np.repeat(np.arange(len(examples), dtype=np.int32), [len(k) for k in positions])
    arrays = {}
    for number, layer in sorted(layers.items()):
        for side in "qk":
            name = f"layer.{number}.{side}"
            arrays[name] = np.concatenate(layer[side])
            arrays[name + ".position"], arrays[name + ".example"] = position, example
    heads = [arrays[f"layer.{min(layers)}.{side}"].shape for side in "qk"]
    rotated = getattr(model.config, "no_rope_layers", None) or [1] * model.config.num_hidden_layers  # 0: without RoPE
    without = a.nope_layers if a.nope_layers is not None else [n for n, r in enumerate(rotated) if not r]
    length = max(e["tokens"] for e in examples)
    manifest = {
        "format": "qkgeom-capture", "version": 1, "rope_stage": "post", "seed": 0, "written_by": "capture_from_transformers.py",
        "model": {"name": str(a.model), "model_type": model.config.model_type, "head_dim": heads[0][2],
                  "n_layers": model.config.num_hidden_layers, "n_query_heads": heads[0][1], "n_key_heads": heads[1][1]},
        "context_length": length, "bucket": {"kind": "uniform", "size": -(-length // 16)},
        "rate": min(1.0, a.rows / length), "examples": examples,
        "layers": [{"layer": n, "rope": n not in without, "window": layer["window"], "query_heads": list(range(heads[0][1])),
                    "key_heads": list(range(heads[1][1]))} for n, layer in sorted(layers.items())],
    }
    if scale := layers[min(layers)]["scale"]:
        manifest["score_scale"] = scale
    types = {np.dtype(np.float32): "F32", np.dtype(np.int32): "I32"}
    shapes = {name: (types[x.dtype], x.shape) for name, x in arrays.items()}
    with SafetensorsWriter(a.out, shapes, manifest) as file:
        for name, x in arrays.items():
            file.add(name, x)


if __name__ == "__main__":
    run("capture_from_transformers.py", main)
