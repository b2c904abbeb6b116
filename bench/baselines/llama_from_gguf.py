#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A Llama in a GGUF file as transformers reads it, and documents to capture: the texts of a JSONL file, one behind the
other, cut after so many characters.

Usage: llama_from_gguf.py FILE.gguf JSONL FOLDER [--documents N] [--characters N]
Writes FOLDER/config.json, model.safetensors (f32), tokenizer.json and documents.jsonl. Needs gguf, numpy, safetensors.
"""
import argparse
import json
import pathlib

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.numpy import save_file

NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
         "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("gguf", type=pathlib.Path)
    p.add_argument("jsonl", type=pathlib.Path)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--documents", type=int, default=4)
    p.add_argument("--characters", type=int, default=60000)
    a = p.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(a.gguf)
    value = lambda key: reader.fields[key].contents()
    heads, keys, hidden = (value(f"llama.{k}") for k in ("attention.head_count", "attention.head_count_kv", "embedding_length"))
    tensors = {}
    for x in reader.tensors:
        values = dequantize(x.data, x.tensor_type).astype(np.float32).reshape([int(n) for n in reversed(x.shape)])
        part, weight = x.name.rsplit(".", 1)
        if part not in TOP:
            _, layer, part = part.split(".")
            if part in ("attn_q", "attn_k"):  # the converter lays pairs of channels side by side
                n = heads if part == "attn_q" else keys
                values = values.reshape(n, len(values) // n // 2, 2, -1).swapaxes(1, 2).reshape(values.shape)
            name = f"model.layers.{layer}.{NAMES[part]}"
        else:
            name = TOP[part]
        tensors[f"{name}.{weight}"] = np.ascontiguousarray(values)
    save_file(tensors, a.folder / "model.safetensors", metadata={"format": "pt"})
    tokens = value("tokenizer.ggml.tokens")
    (a.folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "intermediate_size": value("llama.feed_forward_length"), "num_hidden_layers": value("llama.block_count"),
        "num_attention_heads": heads, "num_key_value_heads": keys, "vocab_size": len(tokens),
        "max_position_embeddings": value("llama.context_length"), "rope_theta": float(value("llama.rope.freq_base")),
        "rms_norm_eps": float(value("llama.attention.layer_norm_rms_epsilon")),
        "tie_word_embeddings": "lm_head.weight" not in tensors}))
    added = [{"id": i, "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, (s, kind) in enumerate(zip(tokens, value("tokenizer.ggml.token_type"))) if kind == 3]
    (a.folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": added, "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {s: i for i, s in enumerate(tokens)}, "merges": value("tokenizer.ggml.merges")}}))
    text = "\n".join(json.loads(line)["text"] for line in open(a.jsonl))
    if len(text) < a.documents * a.characters:
        raise SystemExit(f"{a.jsonl} holds {len(text)} characters, fewer than {a.documents} documents of {a.characters}")
    (a.folder / "documents.jsonl").write_text("".join(
        json.dumps({"text": text[i * a.characters:(i + 1) * a.characters]}) + "\n" for i in range(a.documents)))


main()
