#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A random Llama of 100 M parameters in bf16, a tokenizer whose tokens are bytes, and documents of a length in tokens.

Usage: make_random_llama.py FOLDER [--layers N] [--documents N] [--tokens T]
Writes FOLDER/config.json, model.safetensors, tokenizer.json and documents.jsonl. Needs torch, safetensors.
"""
import argparse
import json
import pathlib
import random

import torch
from safetensors.torch import save_file

HIDDEN, HEADS, KEY_HEADS, HEAD_DIM, WIDTH, VOCABULARY = 768, 12, 4, 64, 2048, 32000


def weights(layers):
    def random_matrix(out, columns):
        return (torch.randn(out, columns) * columns**-0.5).to(torch.bfloat16)

    ones = torch.ones(HIDDEN, dtype=torch.bfloat16)
    tensors = {"model.embed_tokens.weight": random_matrix(VOCABULARY, HIDDEN), "model.norm.weight": ones}
    for layer in range(layers):
        name = f"model.layers.{layer}."
        tensors[name + "input_layernorm.weight"] = ones.clone()
        tensors[name + "post_attention_layernorm.weight"] = ones.clone()
        for part, out, columns in (("self_attn.q_proj", HEADS * HEAD_DIM, HIDDEN), ("self_attn.k_proj", KEY_HEADS * HEAD_DIM, HIDDEN),
                                   ("self_attn.v_proj", KEY_HEADS * HEAD_DIM, HIDDEN), ("self_attn.o_proj", HIDDEN, HEADS * HEAD_DIM),
                                   ("mlp.gate_proj", WIDTH, HIDDEN), ("mlp.up_proj", WIDTH, HIDDEN), ("mlp.down_proj", HIDDEN, WIDTH)):
            tensors[f"{name}{part}.weight"] = random_matrix(out, columns)
    return tensors


def byte_tokenizer():
    # GPT-2's names of the bytes: printable ones are themselves, the others are moved behind 255.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    names = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": byte_level,
            "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "vocab": {names[b]: b for b in range(256)}, "merges": []}}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--documents", type=int, default=4)
    p.add_argument("--tokens", type=int, default=4096)
    a = p.parse_args()
    torch.manual_seed(1)
    a.folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN, "num_hidden_layers": a.layers,
              "num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "head_dim": HEAD_DIM, "intermediate_size": WIDTH,
              "vocab_size": VOCABULARY, "max_position_embeddings": 8192, "rope_theta": 10000.0, "rms_norm_eps": 1e-5,
              "hidden_act": "silu", "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16"}
    (a.folder / "config.json").write_text(json.dumps(config, indent=1))
    (a.folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer()))
    save_file(weights(a.layers), a.folder / "model.safetensors", metadata={"format": "pt"})
    draw = random.Random(1)
    with open(a.folder / "documents.jsonl", "w") as f:
        for _ in range(a.documents):
            f.write(json.dumps({"text": "".join(chr(draw.randrange(32, 127)) for _ in range(a.tokens))}) + "\n")


main()
