#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes llama-tiny/: a small Llama with random bf16 weights, llama3 rope scaling and biases, in two shards, and
forward.safetensors: ids and q, k of every layer as the attention function of transformers receives them.

Usage: make_llama_fixture.py OUT   (needs torch, transformers, safetensors)
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

from make_family_fixtures import LLAMA3, add_rows, capture

POSITIONS = [0, 1, 2, 17, 63, 64, 100, 255, 256, 257, 298, 299]


def main(out):
    torch.manual_seed(11)
    config = LlamaConfig(
        vocab_size=160, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=20, max_position_embeddings=512, rms_norm_eps=1e-5, attention_bias=True,
        mlp_bias=True, tie_word_embeddings=False,
        rope_parameters=dict(LLAMA3, rope_theta=5e5, factor=8.0, high_freq_factor=4.0))
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(1 + 0.1 * torch.randn_like(p) if "norm" in name else torch.randn_like(p) * (0.3 if "bias" in name else 0.2))
    model.to(torch.bfloat16).save_pretrained(out, max_shard_size="60KB")
    ids = torch.randint(0, 160, (1, 300))
    tensors = {"ids": ids[0].to(torch.int32), "position": torch.tensor(POSITIONS, dtype=torch.int32)}
    for kind, dtype in (("bf16", torch.bfloat16), ("f32", torch.float32)):
        add_rows(tensors, kind, capture(out, LlamaForCausalLM, dtype, ids)[0], POSITIONS)
    save_file(tensors, pathlib.Path(out) / "forward.safetensors")
    (pathlib.Path(out) / "generation_config.json").unlink(missing_ok=True)


main(sys.argv[1])
