#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/fuzz/corpus/: a few small whole files for each reader, from which fuzzing starts.

Usage: make_corpus.py     writes into corpus/ beside it
"""
import json
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "data"))
from make_hostile import LLAMA, ONE_FLOAT, capture, safetensors  # noqa: E402

MANIFEST = {
    "format": "qkgeom-capture", "version": 1,
    "model": {"name": "m", "model_type": "llama", "config_sha256": "00", "head_dim": 4, "n_layers": 2, "n_query_heads": 2,
              "n_key_heads": 1},
    "context_length": 64, "bucket": {"kind": "log2", "size": 4}, "rate": 0.5, "rope_stage": "post", "seed": 7,
    "rope": {"style": "half", "rotary_dim": 4, "attention_factor": 1, "inv_freq": [1, 0.01]},
    "layers": [{"layer": 0, "rope": True, "window": None, "query_heads": [0, 1], "key_heads": [0]},
               {"layer": 1, "rope": {"style": "interleaved", "rotary_dim": 2, "inv_freq": [1]}, "window": 16,
                "query_heads": [1], "key_heads": [0]}],
    "examples": [{"index": 0, "id": "a", "tokens": 64, "labels": {"task": "qa", "n": 3}},
                 {"index": 2, "id": "b", "tokens": 9}],
    "shards": [{"file": "shard-00000.safetensors", "examples": [0, 2], "rows": 60}],
    "revision": "r", "compute_dtype": "f32", "family": "f", "written_by": "w", "moments": {"bucket_size": 4, "blocks": 2}}
SCALINGS = [{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
             "original_max_position_embeddings": 2048},
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "mscale": 1.0, "truncate": False},
            {"type": "dynamic", "factor": 2.0}]
FAMILIES = [
    {"model_type": "smollm3", "no_rope_layers": [1], "use_sliding_window": True, "sliding_window": 8},
    {"model_type": "gemma3_text", "query_pre_attn_scalar": 8, "sliding_window": 8, "sliding_window_pattern": 2,
     "hidden_activation": "gelu_pytorch_tanh",
     "rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}},
    {"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
     "mlp_only_layers": [0], "layer_types": ["full_attention"]},
    {"model_type": "mistral3", "text_config": LLAMA | {"model_type": "ministral3"},
     "quantization_config": {"quant_method": "fp8"}},
    {"model_type": "mllama", "text_config": LLAMA | {"cross_attention_layers": [0]}},
    {"model_type": "phi3", "original_max_position_embeddings": 64, "partial_rotary_factor": 0.5,
     "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 3.0]}},
    {"model_type": "gemma2", "attn_logit_softcapping": 50.0, "final_logit_softcapping": None},
    {"model_type": "granite", "attention_multiplier": 0.1, "embedding_multiplier": 12.0, "logits_scaling": 8.0},
    {"model_type": "hunyuan_v1_dense", "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}},
    {"model_type": "exaone4", "sliding_window": 8, "sliding_window_pattern": "LG"},
    {"model_type": "lfm3", "layer_types": ["conv"], "rope_parameters": {
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5}, "sliding_attention": {}}},
    {"model_type": "olmo_hybrid", "linear_num_key_heads": 2, "linear_num_value_heads": 2, "layer_types": ["linear_attention"]},
    {"model_type": "granitemoehybrid", "num_local_experts": 0, "layer_types": ["mamba"], "mamba_n_heads": 2,
     "mamba_d_head": "auto", "time_step_limit": [0.0, 8.0]},
    {"model_type": "mistral4", "kv_lora_rank": 8, "q_lora_rank": None, "rope_parameters": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "llama_4_scaling_beta": 0.1}},
    {"model_type": "gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 1e4, "hidden_act": "gelu"},
    {"model_type": "gemma4_text", "hidden_size_per_layer_input": 0, "sliding_window": 8, "global_head_dim": 16,
     "attention_k_eq_v": True, "layer_types": ["full_attention"], "rope_parameters": {
         "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1e6},
         "sliding_attention": {"rope_theta": 1e4}}}]
CHARACTERS = [chr(c) for c in range(33, 127)] + ["\u0120", "\u2581", "th", "the", "\u0120t"]


def tokenizer(**fields):
    return {"added_tokens": [{"id": 200, "content": "<|end_of_text|>", "special": True, "lstrip": True, "rstrip": True},
                             {"id": 201, "content": "12", "special": False, "single_word": True, "normalized": True}],
            "normalizer": None, "pre_tokenizer": None, "post_processor": None,
            "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(CHARACTERS)},
                      "merges": ["t h", ["th", "e"], "\u0120 t"], "byte_fallback": False, "unk_token": "?",
                      "fuse_unk": True}} | fields


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}
TOKENIZERS = [
    tokenizer(pre_tokenizer=BYTE_LEVEL,
              post_processor={"type": "TemplateProcessing",
                              "single": [{"SpecialToken": {"id": "b"}}, {"Sequence": {"id": "A"}}],
                              "special_tokens": {"b": {"ids": [200]}}}),
    tokenizer(normalizer={"type": "Sequence", "normalizers": [
        {"type": "NFC"}, {"type": "Prepend", "prepend": "\u2581"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}, {"type": "Lowercase"},
        {"type": "Strip", "strip_left": True, "strip_right": False}]}),
    tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": r"(?i:'s)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}]+|\s+(?!\S)|\s+"},
         "behavior": "Isolated", "invert": False},
        {"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "use_regex": False}]}),
    tokenizer(pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
              post_processor={"type": "Sequence", "processors": [{"type": "ByteLevel"}]})]


def gguf(kind="gpt2", architecture="llama", more={}, layer=[("attn_q.weight", [32, 32], 2, 576)]):
    """A model of one layer with some tensors, a tokenizer of four tokens, and a value of every kind."""
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()

    def value(v):
        if isinstance(v, list):
            code = 8 if isinstance(v[0], str) else 6 if isinstance(v[0], float) else 5
            return struct.pack("<IIQ", 9, code, len(v)) + b"".join(
                text(x) if isinstance(x, str) else struct.pack("<f" if code == 6 else "<i", x) for x in v)
        if isinstance(v, str):
            return struct.pack("<I", 8) + text(v)
        if isinstance(v, bool):
            return struct.pack("<IB", 7, v)
        return struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<II", 4, v)

    own = {"block_count": 1, "context_length": 8, "embedding_length": 32, "feed_forward_length": 32,
           "attention.head_count": 2, "attention.layer_norm_rms_epsilon": 1e-5, "rope.scaling.type": "yarn",
           "rope.scaling.factor": 2.0} | more
    keys = {"general.architecture": architecture} | {f"{architecture}.{k}": v for k, v in own.items()} | {
            "tokenizer.ggml.model": kind,
            "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": ["<s>", "a", "b", "ab"], "tokenizer.ggml.merges": ["a b"],
            "tokenizer.ggml.scores": [0.0, 0.0, 0.0, -1.0], "tokenizer.ggml.token_type": [3, 1, 1, 1],
            "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 0}
    tensors = [("token_embd.weight", [32, 4], 8, 136), *(("blk.0." + name, *rest) for name, *rest in layer),
               ("output_norm.weight", [32], 0, 128)]
    out = b"GGUF" + struct.pack("<Iqq", 3, len(tensors), len(keys))
    out += b"".join(text(k) + value(v) for k, v in keys.items())
    at = 0
    for name, shape, kind, size in tensors:
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}q", *shape) + struct.pack("<IQ", kind, at)
        at += (size + 31) // 32 * 32
    return out + bytes(-len(out) % 32) + bytes(i * 7 % 251 for i in range(at))


# Value heads in another order, and latent attention whose matrix of keys and values has two parts.
DELTA = dict(architecture="qwen35", more={
    "ssm.conv_kernel": 4, "ssm.state_size": 4, "ssm.group_count": 1, "ssm.time_step_rank": 2, "ssm.inner_size": 8,
    "full_attention_interval": 2}, layer=[("attn_qkv.weight", [32, 16], 2, 288), ("ssm_out.weight", [8, 32], 0, 1024),
                                          ("ssm_a", [2], 0, 8)])
LATENT = dict(architecture="deepseek2", more={
    "attention.head_count_kv": 1, "attention.key_length": 36, "attention.value_length": 32, "attention.key_length_mla": 36,
    "attention.value_length_mla": 8, "attention.kv_lora_rank": 32, "rope.dimension_count": 4, "expert_gating_func": 2,
    "expert_count": 2, "expert_used_count": 1, "expert_feed_forward_length": 32},
    layer=[("attn_k_b.weight", [32, 32, 2], 2, 1152), ("attn_v_b.weight", [32, 8, 2], 0, 2048)])


# One head of size 4, two buckets of 512 tokens, two documents.
STATISTICS = {"moments": {"bucket_size": 512, "blocks": 1}, "softmax": {"bucket_size": 512, "queries": 4},
              "loss": {"bucket_size": 512}}
STATISTICS_TENSORS = [("moments.edges", [3]), ("loss.sum", [2, 2]), ("loss.count", [2, 2])]
STATISTICS_TENSORS += [(f"layer.0.{side}.moments.{what}", shape) for side in "qk" for what, shape in (
    ("count", [2]), ("sum_t", [2]), ("sum_tt", [2]), ("mean", [1, 2, 4]), ("cov_t", [1, 2, 4]))]
STATISTICS_TENSORS += [("layer.0.q.moments.cov", [1, 2, 4, 4]), ("layer.0.k.moments.cov", [1, 4, 4]),
                       ("layer.0.k.moments.var", [1, 2, 4]), ("layer.0.k.moments.differences", [1, 4, 4]),
                       ("layer.0.k.moments.pairs", [1]), ("layer.0.attention.count", [2, 2]),
                       ("layer.0.attention.first", [2, 1, 2, 3]), ("layer.0.attention.distance", [2, 1, 2, 11]),
                       ("layer.0.attention.entropy", [2, 1, 2])]
PART = {"part": {"number": 2, "of": 3}, "inputs_sha256": "00", "moments": {"bucket_size": 512, "blocks": 1, "first_block": 1}}


def dump(value):
    return json.dumps(value, separators=(",", ":")).encode()


CORPUS = {
    "safetensors": [
        safetensors(("{" + f'"__metadata__":{{"a":"b"}},"x":{ONE_FLOAT}}},"y":' +
                     '{"note":[1,{}],"dtype":"F4","shape":[2,2],"data_offsets":[4,6]},'
                     '"z":{"dtype":"I64","shape":[0,3],"data_offsets":[6,6],"more":null}}').encode(), bytes(6)),
        capture()],
    "manifest": [dump(MANIFEST), dump(MANIFEST | PART)],
    "capture": [capture(), capture(context=2000, size=100), capture(fields=STATISTICS, more=STATISTICS_TENSORS)],
    "config": [dump(LLAMA)] + [dump(LLAMA | {"rope_scaling": s}) for s in SCALINGS] + [dump(LLAMA | f) for f in FAMILIES],
    "tokenizer": [dump(t) for t in TOKENIZERS],
    "json_lines": [b'{"text":"In the beginning","id":"Genesis","labels":{"a":1},"language":"en"}\n\n'
                   b'{"text":"\\ud83d\\ude00 \\ud800 \xc3\xa4","id":7}\r\n{"id":"x","text":"","language":null}'],
    "csv": [b'layer,name,value\n1,"a,""b""",0.5\r\n2,"c\nd",\n3,e,1e-3\n', b"\xef\xbb\xbfa,b\n1,nan\n-inf,0x1\n"],
    "gguf": [gguf(), gguf("llama"), gguf(**DELTA), gguf(**LATENT)],
    "progress": [dump({"settings": "{}", "inputs": "00", "done": json.dumps(MANIFEST)}),
                 dump({"settings": "{}", "inputs": "00"})],
}

if __name__ == "__main__":
    for reader, files in CORPUS.items():
        folder = HERE / "corpus" / reader
        folder.mkdir(parents=True, exist_ok=True)
        for i, content in enumerate(files):
            (folder / f"{i}").write_bytes(content)
