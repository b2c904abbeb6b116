#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The capture that qkgeom capture makes, by transformers with PyTorch: q and k of all heads at drawn positions, kept
through the attention interface, one document at a time, without the output matrix.

Usage: capture_transformers.py MODEL JSONL OUT [--dtype f32|bf16] [--examples N] [--max-length T] [--threads N]
Prints one JSON object: tokens_per_s (all documents but the first, which warms up), peak_rss_mb, seconds.
Needs torch, transformers, tokenizers, safetensors.
"""
import argparse
import json
import pathlib
import resource
import time

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

BUCKET, RATE = 512, 24


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("jsonl", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    p.add_argument("--examples", type=int, default=4)
    p.add_argument("--max-length", type=int, default=8192)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    dtype = torch.float32 if a.dtype == "f32" else torch.bfloat16
    folder = a.model if (a.model / "tokenizer.json").exists() else a.model.parent
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    with open(a.jsonl) as f:
        texts = [json.loads(line)["text"] for line, _ in zip(f, range(a.examples))]

    rows, keep = [], None
    sdpa = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def capture(module, query, key, *args, **kwargs):
        rows.append((query[0].index_select(1, keep), key[0].index_select(1, keep)))
        return sdpa(module, query, key, *args, **kwargs)

    ALL_ATTENTION_FUNCTIONS["capture"] = capture
    ALL_MASK_ATTENTION_FUNCTIONS["capture"] = ALL_MASK_ATTENTION_FUNCTIONS["sdpa"]
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=dtype, attn_implementation="capture").eval().model

    a.out.mkdir(parents=True, exist_ok=True)
    counted, seconds = 0, 0.0
    torch.manual_seed(0)
    for i, text in enumerate(texts):
        start = time.perf_counter()
        ids = tokenizer.encode(text).ids[: a.max_length]
        keep = (torch.rand(len(ids)) < RATE / BUCKET).nonzero()[:, 0]
        rows.clear()
        with torch.inference_mode():
            model(torch.tensor([ids]), use_cache=False)
        tensors = {"position": keep.to(torch.int32)}
        for layer, (q, k) in enumerate(rows):
            tensors[f"layer.{layer}.q"] = q.transpose(0, 1).contiguous()
            tensors[f"layer.{layer}.k"] = k.transpose(0, 1).contiguous()
        save_file(tensors, a.out / f"shard-{i:05}.safetensors")
        if i > 0:
            counted += len(ids)
            seconds += time.perf_counter() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"dtype": a.dtype, "tokens_per_s": counted / seconds, "seconds": seconds, "tokens": counted,
                      "peak_rss_mb": usage.ru_maxrss * 1024 / 1e6, "cpu_s": usage.ru_utime + usage.ru_stime,
                      "torch": torch.__version__}))


main()
