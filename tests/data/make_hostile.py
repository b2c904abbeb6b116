#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes files that once crashed a program, took its memory or its time, or were misread. tests/examples/hostile_check.py
runs the programs on them.

Usage: make_hostile.py FOLDER
"""
import json
import math
import pathlib
import struct
import sys

TOKENIZER = pathlib.Path(__file__).parents[2] / "examples/data/kjv-smollm3/tokenizer.json"


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def capture(name="t", context=1024, size=64, after=b"", fields={}, more=()):
    """A capture of one head of size 4 and two documents of 12 rows each, with more manifest fields and F64 tensors of ones."""
    manifest = {
        "format": "qkgeom-capture", "version": 1,
        "model": {"name": name, "model_type": "llama", "head_dim": 4, "n_layers": 1, "n_query_heads": 1,
                  "n_key_heads": 1},
        "context_length": context, "bucket": {"kind": "uniform", "size": size}, "rate": 4.0, "rope_stage": "post",
        "seed": 1, "layers": [{"layer": 0, "rope": True, "query_heads": [0], "key_heads": [0]}],
        "examples": [{"index": i, "id": str(i), "tokens": 1024} for i in range(2)]} | fields
    rows = [(document, 80 * i) for document in range(2) for i in range(12)]
    header, data = {"__metadata__": {"qkgeom": json.dumps(manifest)}}, b""

    def add(tensor, dtype, shape, values):
        nonlocal data
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values

    for side, turn in ("k", 1), ("q", 2):
        values = [((i * 7 + j * 3) * turn % 11) - 5 + 0.01 * t for i, (_, t) in enumerate(rows) for j in range(4)]
        add(f"layer.0.{side}", "F32", [24, 1, 4], struct.pack("<96f", *values))
    for side in "kq":
        add(f"layer.0.{side}.example", "I32", [24], struct.pack("<24i", *(d for d, _ in rows)))
        add(f"layer.0.{side}.position", "I32", [24], struct.pack("<24i", *(t for _, t in rows)))
    for tensor, shape in more:
        n = math.prod(shape)
        edges = tensor == "moments.edges"
        add(tensor, "I64" if edges else "F64", shape, struct.pack("<3q", 0, 512, 1024) if edges else struct.pack(f"<{n}d", *[1.0] * n))
    return safetensors(json.dumps(header, separators=(",", ":")).encode() + after, data)


LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 1100, "hidden_size": 8,
         "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
         "head_dim": 8, "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
         "hidden_act": "silu", "tie_word_embeddings": True}


def tokenizer(**fields):
    return json.dumps(json.loads(TOKENIZER.read_text()) | fields).encode()


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def sequence(kind, steps):
    return {"type": "Sequence", kind: steps}


def with_type(**fields):
    """tokenizer.json whose model has other fields."""
    return tokenizer(model=json.loads(TOKENIZER.read_text())["model"] | fields)


ONE_FLOAT = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]'
ESCAPES = "\x1b]0;owned\x07\x1b[31m\u202e"
EXPERTS = {"model_type": "qwen3_moe", "num_experts": 65536, "moe_intermediate_size": 8, "num_experts_per_tok": 1}
FILES = {
    "whole.safetensors": capture(),
    "escapes-in-family.safetensors": capture(fields={"family": ESCAPES}),
    "escapes-in-labels.safetensors": capture(fields={"examples": [
        {"index": i, "id": str(i), "tokens": 1024, "labels": {"task": f"{ESCAPES}{i}", "end]]>": "a"}} for i in range(2)]}),
    "name-that-no-font-has.safetensors": capture(name="".join(chr(0x4e00 + i) for i in range(1300))),
    "end-of-cdata-in-name.safetensors": capture(name="a]]>b\uffff"),
    "pointer.safetensors": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n",
    "experts.config.json": json.dumps(LLAMA | EXPERTS | {"num_hidden_layers": 4096}).encode(),
    "empty-experts.safetensors": safetensors({f"a{i}.experts.gate_up_proj": {
        "dtype": "BF16", "shape": [65536, 0, 0], "data_offsets": [0, 0]} for i in range(100)}),
    "apostrophes.safetensors": capture(name="'tis a name of ''two"),
    "nul-in-header.safetensors": capture(after=b'\0{"hidden":1}'),
    "grid-above-limit.safetensors": capture(context=2**31 - 1),
    "grid-2e22-buckets.safetensors": capture(context=2**22, size=1),
    "grid-65536-buckets.safetensors": capture(context=2**16, size=1),
    "long-name.safetensors": capture(name="n" * 5000),
    "unknown-field-last.safetensors": safetensors(f'{{"x":{ONE_FLOAT},"note":1}}}}'.encode(), bytes(4)),
    "tensor-takes-the-next-ones-fields.safetensors":
        safetensors(f'{{"x":{{"note":1}},"y":{ONE_FLOAT}}}}}'.encode(), bytes(4)),
    "unknown-dtype.safetensors": safetensors({"x": {"dtype": "F7", "shape": [9], "data_offsets": [0, 4]}}, bytes(4)),
    "model-type-with-controls.config.json": json.dumps(LLAMA | {"model_type": "\x1b[2J\n\0"}).encode(),
    "rope-type-with-controls.config.json": json.dumps(LLAMA | {"rope_parameters": {"rope_type": "\x1b[31m\0"}}).encode(),
    "fields-of-two-families.config.json": json.dumps(LLAMA | {"kv_lora_rank": 8}).encode(),
    "too-many-layer-types.config.json": json.dumps(LLAMA | {"layer_types": ["full_attention"] * 2}).encode(),
    "too-few-layer-types.config.json": json.dumps(LLAMA | {"model_type": "qwen3", "layer_types": []}).encode(),
    "nul-after-the-end.config.json": json.dumps(LLAMA).encode() + b'\0{"model_type":"gpt2"}',
    "model-type-with-controls.tokenizer.json": with_type(type="\x1b[31m\n\0\x9b" + "x" * 2**20),
    "12000-steps.tokenizer.json": tokenizer(normalizer=sequence("normalizers", [replace("a", "a")] * 12000)),
    "growing-normalizer.tokenizer.json": tokenizer(normalizer=sequence("normalizers", [replace("a", "aa")] * 40)),
    "one-growing-step.tokenizer.json": tokenizer(normalizer=replace("a", "a" * 2**20)),
    "growing-pre-tokenizer.tokenizer.json": tokenizer(
        pre_tokenizer=sequence("pretokenizers", [{"type": "ByteLevel", "use_regex": False}] * 40)),
    "regex.tokenizer.json": tokenizer(
        pre_tokenizer={"type": "Split", "pattern": {"Regex": r"(?:a+)+[bc]|[\s\S]"}, "behavior": "Isolated"}),
    "many-values.tokenizer.json": b'{"model":[' + b"{}," * 20_000_000 + b"{}]}",
    "many-fields.tokenizer.json": b"{" + b",".join(b'"%x":0' % i for i in range(5_000_000)) + b"}",
    "too-large.config.json": b'{"model_type":"' + b"x" * 2**20 + b'"}',
    "many-values.manifest.json": b"[" + b"[]," * 30_000_000 + b"[]]",
    "many-entries.safetensors": safetensors(
        b'{"__metadata__":{' + b",".join(b'"%x":""' % i for i in range(2_000_000)) + b"}}"),
    "nul-in-a-line.jsonl": b'{"text":"a"}\0{"text":"b"}\n',
    "letters-a.jsonl": json.dumps({"text": "a" * 100_000}).encode(),
}

if __name__ == "__main__":
    for name, content in FILES.items():
        (pathlib.Path(sys.argv[1]) / name).write_bytes(content)

