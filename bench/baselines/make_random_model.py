#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A model of a known shape with random weights in bf16, a tokenizer whose tokens are bytes, and documents of a length in
tokens.

Usage: make_random_model.py SHAPE FOLDER [--layers N] [--documents N] [--tokens T]
SHAPE: llama-100m, qwen3-0.6b, llama-3.1-8b, ministral-3-14b. --layers: instead of the shape's own.
Writes FOLDER/config.json, model.safetensors, tokenizer.json and documents.jsonl; tensor by tensor, so that no model has
to fit into memory. No output matrix: what is measured needs none. Needs torch.
"""
import argparse
import json
import pathlib
import random

import torch

SHAPES = {
    "llama-100m": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 768, "num_hidden_layers": 12,
                   "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 2048,
                   "vocab_size": 32000, "max_position_embeddings": 8192, "rope_theta": 10000.0, "rms_norm_eps": 1e-5,
                   "tie_word_embeddings": True},
    # The released context is 40960 tokens; the config says 131072 so that both programs take such documents.
    "qwen3-0.6b": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 28,
                   "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072,
                   "vocab_size": 151936, "max_position_embeddings": 131072, "rope_theta": 1e6, "rms_norm_eps": 1e-6,
                   "tie_word_embeddings": True},
    "llama-3.1-8b": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
                     "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336,
                     "vocab_size": 128256, "max_position_embeddings": 131072, "rope_theta": 5e5, "rms_norm_eps": 1e-5,
                     "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                      "original_max_position_embeddings": 8192},
                     "tie_word_embeddings": False},
    "ministral-3-14b": {"model_type": "ministral3", "architectures": ["Ministral3ForCausalLM"], "hidden_size": 5120,
                        "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                        "intermediate_size": 16384, "vocab_size": 131072, "max_position_embeddings": 262144, "rms_norm_eps": 1e-5,
                        "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e9, "factor": 16.0, "beta_fast": 32.0,
                                            "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                                            "original_max_position_embeddings": 16384, "llama_4_scaling_beta": 0.1},
                        "sliding_window": None, "tie_word_embeddings": False},
}


def tensors(c):
    """Names and shapes; those of one dimension are norms, and ones."""
    hidden, width, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    queries, keys = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    yield "model.embed_tokens.weight", (c["vocab_size"], hidden)
    yield "model.norm.weight", (hidden,)
    for layer in range(c["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        yield name + "input_layernorm.weight", (hidden,)
        yield name + "post_attention_layernorm.weight", (hidden,)
        if c["model_type"] == "qwen3":
            yield name + "self_attn.q_norm.weight", (d,)
            yield name + "self_attn.k_norm.weight", (d,)
        for part, out, columns in (("self_attn.q_proj", queries, hidden), ("self_attn.k_proj", keys, hidden),
                                   ("self_attn.v_proj", keys, hidden), ("self_attn.o_proj", hidden, queries),
                                   ("mlp.gate_proj", width, hidden), ("mlp.up_proj", width, hidden), ("mlp.down_proj", hidden, width)):
            yield f"{name}{part}.weight", (out, columns)


def write_weights(path, config):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors(config):
        begin, end = end, end + 2 * torch.Size(shape).numel()
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)  # tensors on cache lines
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, shape in tensors(config):
            x = torch.ones(shape) if len(shape) == 1 else torch.randn(shape, device=device) * shape[1] ** -0.5
            x.to(torch.bfloat16).view(torch.int16).cpu().numpy().tofile(f)


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
    p.add_argument("shape", choices=SHAPES)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--layers", type=int)
    p.add_argument("--documents", type=int, default=4)
    p.add_argument("--tokens", type=int, default=4096)
    a = p.parse_args()
    torch.manual_seed(1)
    a.folder.mkdir(parents=True, exist_ok=True)
    config = SHAPES[a.shape] | {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16"}
    if a.layers:
        config["num_hidden_layers"] = a.layers
    (a.folder / "config.json").write_text(json.dumps(config, indent=1))
    (a.folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer()))
    write_weights(a.folder / "model.safetensors", config)
    draw = random.Random(1)
    with open(a.folder / "documents.jsonl", "w") as f:
        for _ in range(a.documents):
            f.write(json.dumps({"text": "".join(chr(draw.randrange(32, 127)) for _ in range(a.tokens))}) + "\n")


main()
