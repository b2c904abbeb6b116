#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes gguf/NAME.gguf with llama.cpp's own converter: tiny checkpoints of the families of make_family_fixtures.py, and of
some the experts' gate and up in one tensor (NAME-fused) or matrices in Q8_0 (NAME-q8_0). Two keys more hold what was
converted: test.config, its config.json, and test.shapes, the names and shapes of its tensors. Their values are those of
`entries`, which the tests compute too.

Usage: make_gguf_models.py LLAMA_CPP OUT NAME... | all   (needs llama.cpp's source, torch, transformers, safetensors)
"""
import json
import math
import pathlib
import sys
import tempfile

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

import make_family_fixtures as fixtures

# Variants of a family's file by their endings: other sizes, type of matrices, whether gate and up of experts are joined.
VARIANTS = {"-q8_0": ({"hidden_size": 32}, "MOSTLY_Q8_0", False), "-fused": ({}, "MOSTLY_F16", True)}
# Fields whose values llama.cpp takes for granted, since its files have no keys for them: heads of hidden_size /
# num_attention_heads, the scale of scores, which layers slide, experts in all layers.
SLIDING, FULL = "sliding_attention", "full_attention"
GRANTED = {"glm": {"hidden_size": 16, "head_dim": 4}, "gemma2": {"query_pre_attn_scalar": 20},
           "gemma3-text": {"query_pre_attn_scalar": 20, "num_hidden_layers": 6, "layer_types": [SLIDING] * 5 + [FULL]},
           "cohere2": {"num_hidden_layers": 4, "layer_types": [SLIDING] * 3 + [FULL]},
           "granite-hybrid-spaces": {"time_step_limit": (0.0, math.inf), "num_hidden_layers": 2,
                                     "intermediate_size": 72, "layer_types": ["linear_attention", "full_attention"]},
           **{name: {"rope_parameters": dict(rope, mscale=0.7, mscale_all_dim=0.7)}
              for name, rope in (("deepseek-v3.2", fixtures.YARN), ("mistral4", fixtures.GROWING))},
           **dict.fromkeys(["qwen3-moe", "qwen3-next"], {"mlp_only_layers": []})}
# Fields of config.json that the converter takes for granted.
MORE = {"gpt-neox": {"rotary_pct": 0.5}, "cohere2": {"rotary_pct": 1.0},
        "glm": {"rope_ratio": 0.1, "layernorm_epsilon": 1.5625e-07, "seq_length": 256},
        **dict.fromkeys(["qwen3.5", "qwen3.5-moe", "qwen3-next"], {"full_attention_interval": 2}),
        **dict.fromkeys(["deepseek-v3", "deepseek-v3-direct", "deepseek-v3.2", "glm-5"], {"scoring_func": "sigmoid"}),
        # EXAONE 4.5 has EXAONE 4's text model, and a layer more, which predicts several tokens and may be left out.
        "exaone4": {"architectures": ["Exaone4_5_ForConditionalGeneration"], "num_nextn_predict_layers": 1},
        "mistral4": {"architectures": ["Mistral3ForConditionalGeneration"]},
        "granite-hybrid-spaces": {"layer_types": ["mamba", "attention"]},
        "hunyuan-dense": {"max_position_embeddings": 32768, "rope_parameters": {
            "rope_type": "dynamic", "alpha": 50.0, "factor": 1.0, "rope_theta": 1e4}}}
NAMES = """llama-linear llama-linear-q8_0 mistral smollm3 smollm3-q8_0 qwen2 qwen3 qwen3-moe olmo2 gemma3-text ministral3 glm glm4
    gpt-neox gemma2 phi3 phi3-short olmo3 granite seed-oss hunyuan-dense exaone4 cohere2 glm4-moe gemma4-text llama4-text
    qwen3.5 qwen3.5-moe qwen3.5-moe-fused qwen3-next qwen3-next-fused deepseek-v3 deepseek-v3-fused deepseek-v3-direct gpt-oss
    llama3 granite-hybrid-spaces deepseek-v3.2 glm-5 mistral4""".split()


def entries(name, shape):
    """Numbers k / 128 between -1 and 1 by the tensor's name; bytes for the blocks and scales of MXFP4."""
    seed = 0
    for c in name.encode():
        seed = (seed * 31 + c) % 2**32
    bits = (seed + np.arange(math.prod(shape), dtype=np.uint64)) * 2654435761 % 2**32 >> 24
    if name.endswith(("_blocks", "_scales")):
        return (bits if name.endswith("_blocks") else 122 + bits % 4).astype(np.uint8).reshape(shape)
    return ((bits.astype(np.float32) - 128) / 128).reshape(shape)


def checkpoint(folder, family, sizes):
    """Saves a checkpoint and returns its config.json and shapes."""
    f = fixtures
    for base in (f.SHAPE, f.WIDE, f.LLAMA4, f.QWEN35, f.LATENT, f.GEMMA4, f.GRANITE4, f.INDEXED):
        hidden = 48 if "phi" in family or "spaces" in family else 16 if base is f.SHAPE else 8
        base.update({"vocab_size": 32, "hidden_size": hidden, "num_attention_heads": 4, "intermediate_size": 12} | sizes)
    f.LLAMA4.update(intermediate_size=8, intermediate_size_mlp=12)
    f.LATENT.update(num_key_value_heads=4)
    f.INDEXED.update(num_key_value_heads=4)
    if family == "llama3":
        rope = dict(f.LLAMA3, factor=8.0, high_freq_factor=4.0)
        config, kind = f.tf.LlamaConfig(**f.SHAPE, rope_parameters=rope), f.tf.LlamaForCausalLM
    else:
        make_config, kind, _ = fixtures.families()[family]
        config = make_config()
        for width in ("moe_intermediate_size", "shared_expert_intermediate_size"):
            if hasattr(config, width):
                setattr(config, width, 8)
        for field, value in GRANTED.get(family, {}).items():
            setattr(config, field, value)
    kind(config).save_pretrained(folder)
    file = folder / "model.safetensors"
    shapes = fixtures.describe_weights(file, kind)["tensors"]
    if family == "gpt-oss":
        for name, (experts, wide, rows) in [(n, s) for n, s in shapes.items() if n.endswith("experts.gate_up_proj") or
                                            n.endswith("experts.down_proj")]:
            del shapes[name]
            shapes |= {name + "_blocks": [experts, rows, wide // 32, 16], name + "_scales": [experts, rows, wide // 32]}
    save_file({name: entries(name, shape) for name, shape in shapes.items()}, file, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text()) | MORE.get(family, {})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(32)}}, "added_tokens": []}))
    return config, shapes


def convert(llama_cpp, folder, out, kind, fused, more):
    sys.path.insert(0, str(llama_cpp))
    sys.path.insert(0, str(llama_cpp / "gguf-py"))
    import conversion
    import gguf
    from conversion.base import ModelBase, ModelType, get_model_architecture
    hparams = ModelBase.load_hparams(folder, False)
    model = conversion.get_model_class(get_model_architecture(hparams, ModelType.TEXT))
    model.no_mtp = "linear_num_key_heads" in hparams  # these have no layers that predict several tokens
    gguf.MODEL_TENSORS[model.model_arch].append(gguf.MODEL_TENSOR.FFN_GATE_UP_EXP)  # llama.cpp reads it in deepseek2 too
    made = model(folder, gguf.LlamaFileType[kind], out, eager=True, fuse_gate_up_exps=fused)
    made = getattr(made, "impl", made)
    made.hparams |= more
    made.set_vocab = lambda: None  # there is no tokenizer
    return made


def main(llama_cpp, out, names):
    for name in NAMES if names == ["all"] else names:
        family, ending = next(((name.removesuffix(e), e) for e in VARIANTS if name.endswith(e)), (name, None))
        sizes, kind, fused = VARIANTS.get(ending, ({}, "MOSTLY_F16", False))
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            config, shapes = checkpoint(folder, family, sizes)
            model = convert(llama_cpp, folder, out / f"{name}.gguf", kind, fused, MORE.get(family, {}))
            model.gguf_writer.add_string("test.config", json.dumps(config))
            model.gguf_writer.add_string("test.shapes", json.dumps(shapes))
            model.write()
        print(f"{name}: {(out / f'{name}.gguf').stat().st_size // 1024} KB")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    with torch.inference_mode():
        main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3:])
