#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prefill of one long document by transformers with PyTorch: the layers of the model with sdpa attention in bf16, without
a cache and without the output matrix.

Usage: prefill_transformers.py MODEL JSONL [--tokens T] [--runs N] [--device cuda|cpu]
Prints one JSON object: tokens_per_s (fastest of N runs after a short one that warms up), peak_mb (the most that tensors
took on the device, weights included), reserved_mb, weights_mb; or `error`, where the device's memory did not do.
Needs torch, transformers, tokenizers.
"""
import argparse
import json
import pathlib
import time

import torch
import transformers
from tokenizers import Tokenizer


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("jsonl", type=pathlib.Path)
    p.add_argument("--tokens", type=int, default=32768)
    p.add_argument("--runs", type=int, default=2)
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    a = p.parse_args()
    gpu = a.device == "cuda"
    with open(a.jsonl) as f:
        ids = Tokenizer.from_file(str(a.model / "tokenizer.json")).encode(json.loads(next(f))["text"]).ids[: a.tokens]
    ids = torch.tensor([ids], device=a.device)
    model = transformers.AutoModel.from_pretrained(a.model, dtype=torch.bfloat16, attn_implementation="sdpa").to(a.device).eval()

    def seconds(tokens):
        start = time.perf_counter()
        with torch.inference_mode():
            model(tokens, use_cache=False)
        if gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    result = {"tokens": ids.shape[1], "layers": model.config.num_hidden_layers, "torch": torch.__version__,
              "transformers": transformers.__version__,
              "weights_mb": sum(w.numel() * w.element_size() for w in model.parameters()) / 1e6}
    try:
        seconds(ids[:, :1024])
        if gpu:
            torch.cuda.reset_peak_memory_stats()
        result["seconds"] = min(seconds(ids) for _ in range(a.runs))
        result["tokens_per_s"] = ids.shape[1] / result["seconds"]
    except torch.OutOfMemoryError as e:
        result["error"] = str(e).splitlines()[0]
    if gpu:
        result["peak_mb"] = torch.cuda.max_memory_allocated() / 1e6
        result["reserved_mb"] = torch.cuda.max_memory_reserved() / 1e6
    print(json.dumps(result))


main()
