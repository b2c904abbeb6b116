#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes families/NAME/ for every family of decoders: config.json of a tiny checkpoint in which the family's odd features
are switched on, weights.json, from which make_family_weights.py writes its random weights, and forward.safetensors: ids
and q, k of every layer as the attention function of transformers receives them, in f32 and bf16. Its metadata hold
`loss`, the mean loss of the ids' next tokens in f32, and may hold `rope_scaling`, the scaling that was asked for when the
model was loaded, and `attention`, "eager" where the model's own function computes it, because no other knows its softcap
or its sinks. Of a family with indexers there is indexer.safetensors too, q and k of every layer's indexer, with `heads_of`
"indexer" in its metadata.

Usage: make_family_fixtures.py OUT NAME... | all   (needs torch, transformers, safetensors)
"""
import copy
import inspect
import json
import pathlib
import shutil
import sys

import torch
import transformers as tf
from safetensors import safe_open
from safetensors.torch import save_file
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from make_family_weights import write_weights

# More than the models' 256 positions; around the edges of windows, key tiles and row tiles.
TOKENS = 300
POSITIONS = [0, 1, 17, 40, 63, 64, 100, 255, 256, 299]

SHAPE = dict(vocab_size=96, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
          "original_max_position_embeddings": 64}
WIDE = dict(SHAPE, head_dim=20)  # heads that are not hidden / heads wide
LLAMA4 = dict(WIDE, num_hidden_layers=4, intermediate_size=24, intermediate_size_mlp=80, num_local_experts=4,
              attention_chunk_size=64, floor_scale=32, attn_scale=0.3, rope_parameters=LLAMA3)
QWEN35 = dict(WIDE, num_hidden_layers=4, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=12,
              linear_value_head_dim=10, layer_types=["linear_attention", "full_attention"] * 2,
              rope_parameters={"rope_type": "default", "rope_theta": 1e3, "partial_rotary_factor": 0.4,
                               "mrope_section": [2, 1, 1]})
# Heads of 12 channels without rotary embedding and 8 with it.
LATENT = dict(SHAPE, num_key_value_heads=6, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, kv_lora_rank=16,
              moe_intermediate_size=24, n_shared_experts=1, first_k_dense_replace=1)
# Of 300 tokens the attention sees 40.
INDEXED = dict(LATENT, q_lora_rank=20, index_n_heads=18, index_head_dim=14, index_topk=40)
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, rope_theta=1e4)
GROWING = dict(YARN, mscale=1.0, mscale_all_dim=0.5, llama_4_scaling_beta=0.1)
GEMMA4 = dict(WIDE, num_hidden_layers=4, sliding_window=32, global_head_dim=24, hidden_size_per_layer_input=0,
              final_logit_softcapping=2.0, layer_types=MIXED + ["full_attention"], rope_parameters={
                  "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.45, "rope_theta": 1e4},
                  "sliding_attention": {"rope_type": "default", "rope_theta": 1e3}})
# Attention alone, and a feed-forward of all tokens without experts.
GRANITE4 = dict(SHAPE, layer_types=["attention"] * 3, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=72,
                mamba_n_heads=4, embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=2.5)
LFM3 = dict(WIDE, num_hidden_layers=4, layer_types=["conv", "sliding_attention", "full_attention", "conv"], sliding_window=33,
            conv_L_cache=5, rope_parameters={
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e3},
                "full_attention": {"rope_type": "proportional", "rope_theta": 1e4, "partial_rotary_factor": 0.5}})
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28,
              patch_size=14)


def without(fields, name):
    return {k: v for k, v in fields.items() if k != name}


def family(stem, fields, scaling=None):
    """(A function that makes the configuration, the model's class, rope scaling or None.)"""
    kind = stem.removesuffix("Text") + ("ForConditionalGeneration" if "text_config" in fields else "ForCausalLM")
    return lambda: getattr(tf, stem + "Config")(**copy.deepcopy(fields)), getattr(tf, kind), scaling


def families():
    """Name: what `family` makes of the beginning of its classes' names, the configuration's fields and the rope scaling."""
    gemma = dict(WIDE, query_pre_attn_scalar=40, sliding_window=32, layer_types=MIXED, rope_parameters={
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e3}})
    half = {"rope_type": "default", "rope_theta": 1e3, "partial_rotary_factor": 0.5}
    glm = dict(WIDE, attention_bias=True, rope_parameters=half)
    # Heads of 16 channels, of which 8 turn.
    longrope = dict(rope_type="longrope", rope_theta=1e3, partial_rotary_factor=0.5, short_factor=[1.0, 1.1, 1.3, 1.6],
                    long_factor=[1.0, 1.7, 2.5, 4.0])
    phi = dict(SHAPE, num_attention_heads=3, num_key_value_heads=1, rope_parameters=longrope)
    neox = without(SHAPE, "num_key_value_heads")
    deepseek = dict(n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2,
                    rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=0.7))
    experts = dict(QWEN35, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                   shared_expert_intermediate_size=16)
    given = {
        "mistral": ("Mistral", dict(WIDE, sliding_window=33)),
        "ministral": ("Ministral", dict(WIDE, sliding_window=33, layer_types=MIXED)),
        "ministral3": ("Ministral3", dict(WIDE, rope_parameters=GROWING)),
        "mistral3": ("Mistral3", dict(text_config=dict(WIDE, model_type="ministral3", rope_parameters=GROWING),
                                      vision_config=dict(VISION, model_type="pixtral", head_dim=8))),
        "mistral4": ("Mistral4", dict(LATENT, q_lora_rank=20, n_routed_experts=4, num_experts_per_tok=2,
                                      rope_parameters=GROWING)),
        "qwen2": ("Qwen2", dict(SHAPE, use_sliding_window=True, sliding_window=33, max_window_layers=1,
                                tie_word_embeddings=True)),
        "qwen3": ("Qwen3", dict(WIDE, attention_bias=True)),
        "qwen3-yarn": ("Qwen3", WIDE, "yarn:4.0:64"),
        "qwen3-moe": ("Qwen3Moe", dict(WIDE, num_hidden_layers=4, num_experts=8, num_experts_per_tok=3,
                                       moe_intermediate_size=24, norm_topk_prob=True, mlp_only_layers=[1])),
        "llama-linear": ("Llama", dict(SHAPE, rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=1e4))),
        "llama-dynamic": ("Llama", dict(SHAPE, rope_parameters=dict(rope_type="dynamic", factor=4.0, rope_theta=1e4))),
        "smollm3": ("SmolLM3", dict(SHAPE, no_rope_layers=[1, 0, 1], use_sliding_window=True, sliding_window=33)),
        "gemma3-text": ("Gemma3Text", gemma),
        "gemma3": ("Gemma3", dict(text_config=dict(gemma, model_type="gemma3_text"), mm_tokens_per_image=4,
                                  vision_config=dict(VISION, model_type="siglip_vision_model"))),
        # Two kinds of heads, and full layers without values of their own; sliding ones have them.
        "gemma4-text": ("Gemma4Text", dict(GEMMA4, attention_k_eq_v=True, num_global_key_value_heads=1)),
        "gemma4": ("Gemma4", dict(
            audio_config=None, text_config=dict(GEMMA4, num_hidden_layers=2, layer_types=MIXED[:2], model_type="gemma4_text",
                                                use_bidirectional_attention="vision"),
            vision_config=dict(VISION, model_type="gemma4_vision", head_dim=8, position_embedding_size=16))),
        "gemma4-unified": ("Gemma4UnifiedText", without(GEMMA4, "hidden_size_per_layer_input")),
        "glm": ("Glm", glm),
        "glm4": ("Glm4", glm),
        "glm4-moe": ("Glm4Moe", dict(WIDE, first_k_dense_replace=1, n_routed_experts=6, num_experts_per_tok=2,
                                     moe_intermediate_size=24, n_shared_experts=1, routed_scaling_factor=1.5,
                                     use_qk_norm=True, attention_bias=True)),
        "olmo2": ("Olmo2", SHAPE),
        "olmo3": ("Olmo3", dict(SHAPE, sliding_window=33, layer_types=MIXED, rope_parameters={
            "full_attention": YARN, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})),
        "olmo-hybrid": ("OlmoHybrid", dict(SHAPE, num_hidden_layers=4, linear_num_key_heads=3, linear_num_value_heads=3,
                                           linear_key_head_dim=12, linear_value_head_dim=12,
                                           layer_types=["linear_attention", "full_attention"] * 2,
                                           rope_parameters={"rope_type": "default", "rope_theta": 1e4})),
        "lfm3": ("Lfm3", LFM3),
        "granite": ("Granite", dict(SHAPE, embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.2,
                                    logits_scaling=2.5, attention_bias=True, mlp_bias=True)),
        "granite-hybrid": ("GraniteMoeHybrid", dict(GRANITE4, position_embedding_type="rope")),
        "granite-hybrid-nope": ("GraniteMoeHybrid", dict(GRANITE4, num_hidden_layers=2, layer_types=["attention"] * 2)),
        "granite-hybrid-spaces": ("GraniteMoeHybrid", dict(
            GRANITE4, layer_types=["mamba", "attention", "mamba"], mamba_d_state=12, mamba_d_head=16, mamba_n_heads=6,
            mamba_n_groups=2, mamba_expand=2, mamba_d_conv=3, mamba_chunk_size=64, time_step_limit=(0.3, 1.5))),
        "seed-oss": ("SeedOss", dict(WIDE, attention_bias=True, attention_out_bias=False)),
        "hunyuan-dense": ("HunYuanDenseV1", dict(WIDE, rope_parameters={
            "rope_type": "dynamic", "alpha": 50.0, "factor": 1.0, "rope_theta": 1e3})),
        "exaone4": ("Exaone4", dict(WIDE, sliding_window=33, layer_types=MIXED)),
        "exaone4.5": ("Exaone4_5_", dict(
            text_config=dict(WIDE, model_type="exaone4", sliding_window=33, layer_types=MIXED),
            vision_config=dict(hidden_size=16, intermediate_size=16, depth=1, num_heads=2, num_key_value_heads=2,
                               out_hidden_size=48, patch_size=14))),
        "cohere2": ("Cohere2", dict(SHAPE, sliding_window=33, layer_types=MIXED, logit_scale=0.25)),
        "phi3": ("Phi3", dict(phi, sliding_window=100, original_max_position_embeddings=64)),
        "phi3-short": ("Phi3", dict(phi, max_position_embeddings=2048, num_hidden_layers=2,
                                    original_max_position_embeddings=512)),
        "gemma2": ("Gemma2", dict(WIDE, query_pre_attn_scalar=10, sliding_window=32, attn_logit_softcapping=2.0,
                                  final_logit_softcapping=1.5)),
        "gpt-oss": ("GptOss", dict(WIDE, hidden_size=32, intermediate_size=32, num_local_experts=4, swiglu_limit=1.0,
                                   num_experts_per_tok=2, sliding_window=32, layer_types=MIXED,
                                   rope_parameters=dict(YARN, truncate=False))),
        "llama4-text": ("Llama4Text", dict(LLAMA4, num_experts_per_tok=2, interleave_moe_layer_step=2)),
        "llama4-without-norm": ("Llama4Text", dict(LLAMA4, num_hidden_layers=3, num_experts_per_tok=1, moe_layers=[0, 1],
                                                   use_qk_norm=False, no_rope_layers=[1, 0, 1])),
        "qwen3.5": ("Qwen3_5Text", QWEN35),
        "qwen3.5-moe": ("Qwen3_5MoeText", experts),
        "qwen3-next": ("Qwen3Next", dict(experts, mlp_only_layers=[1])),
        "deepseek-v3": ("DeepseekV3", dict(LATENT, q_lora_rank=20, routed_scaling_factor=1.5, **deepseek)),
        "deepseek-v3-direct": ("DeepseekV3", dict(
            LATENT, num_hidden_layers=2, q_lora_rank=None, n_routed_experts=4, num_experts_per_tok=2, n_group=1,
            topk_group=1, rope_interleave=False, attention_bias=True,
            rope_parameters={"rope_type": "default", "rope_theta": 1e3})),
        "deepseek-v3.2": ("DeepseekV32", dict(INDEXED, **deepseek)),
        "glm-5": ("GlmMoeDsa", dict(INDEXED, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1,
                                    indexer_types=["full", "shared", "full"],
                                    rope_parameters={"rope_type": "default", "rope_theta": 1e3})),
        "gpt-neox": ("GPTNeoX", dict(neox, rope_parameters=half)),
        "gpt-neox-sequential": ("GPTNeoX", dict(neox, use_parallel_residual=False, hidden_act="gelu_fast")),
        "mllama": ("Mllama", dict(
            text_config=dict(SHAPE, num_hidden_layers=4, cross_attention_layers=[1], model_type="mllama_text_model",
                             rope_parameters=dict(LLAMA3, rope_theta=5e5, factor=8.0, high_freq_factor=4.0)),
            vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_global_layers=1,
                               attention_heads=2, image_size=28, patch_size=14, vision_output_dim=32,
                               intermediate_layers_indices=[0], max_num_tiles=1, supported_aspect_ratios=[[1, 1]]))),
    }
    return {name: family(*of) for name, of in given.items()}


# With some seeds bf16 rounds tokens of a mixture of experts into other experts: then it is not near to f32.
SEED = 3


def describe_weights(file, kind):
    """What weights.json holds of a checkpoint's file."""
    with safe_open(file, "pt") as f:
        shapes = {name: f.get_slice(name).get_shape() for name in f.keys()}
    # transformers 5.24 writes one norm of OLMo Hybrid's attention under the name that it has in delta nets alone.
    for name in [n for n in shapes if n.endswith("feedforward_layer_norm.weight")]:
        if name.replace("feedforward_layer_norm", "post_feedforward_layernorm") in shapes:
            shapes[name.replace("feedforward_layer_norm", "post_attention_layernorm")] = shapes.pop(name)
    norm = 0 if kind.__name__.startswith(("Gemma2", "Gemma3")) else 1
    return {"seed": SEED, "norm": norm, "tensors": dict(sorted(shapes.items()))}


def scaling_of(text):
    kind, *numbers = text.split(":")
    names = {"yarn": ["factor", "original_max_position_embeddings"]}[kind]
    return {"rope_type": kind, **{n: int(float(x)) if "original" in n else float(x) for n, x in zip(names, numbers)}}


def loaded(folder, kind, dtype, scaling):
    """The model of a folder, loaded anew: casting one would round the rotary frequencies too."""
    config = tf.AutoConfig.from_pretrained(folder)
    if scaling:
        config.rope_parameters = {**config.rope_parameters, **scaling_of(scaling)}
    attention = "sdpa" if kind._supports_sdpa else "eager"
    return kind.from_pretrained(folder, config=config, dtype=dtype, attn_implementation=attention).eval()


def capture(folder, kind, dtype, ids, scaling=None):
    """q, k by layer, (heads, positions, head size), those of indexers, the mean loss, and which attention function was used."""
    seen = {}
    used = "sdpa" if kind._supports_sdpa else "eager"
    places, name = ((ALL_ATTENTION_FUNCTIONS, used) if used == "sdpa"
                    else (vars(inspect.getmodule(kind)), "eager_attention_forward"))
    inner = places[name]

    def spy(module, query, key, *args, **kwargs):
        if query.shape[2] == ids.shape[1]:
            seen[module.layer_idx] = (query[0], key[0])
        return inner(module, query, key, *args, **kwargs)

    # In sdpa's own place, because an attention function of another name gets no mask, so no window.
    places[name] = spy
    model = loaded(folder, kind, dtype, scaling)
    indexed, put_back = index_rows(model) if hasattr(model.config, "index_topk") else ({}, lambda: None)
    with torch.no_grad():
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss.item()
    places[name] = inner
    put_back()
    return seen, {layer: [x.to(dtype) for x in rows] for layer, rows in indexed.items()}, loss, used


def index_rows(model):
    """Collects q, k, (heads, positions, head size), of the layers' indexers as the model runs: their first product."""
    seen, inside, product = {}, [], torch.matmul

    def spy(a, b):
        result = product(a, b)
        if inside and inside[-1] not in seen:
            seen[inside[-1]] = (a[0].transpose(0, 1), b[0].transpose(-1, -2))
        elif inside:  # the scores' sums: the last key that is chosen must not be a matter of taste
            scores, chosen = result[0, :, 0], model.config.index_topk
            for t in range(chosen, scores.shape[0]):
                best = scores[t, :t + 1].topk(chosen + 1).values
                assert best[-2] > best[-1], f"layer {inside[-1]}: equal scores at position {t}"
        return result

    for layer in model.model.layers:
        if getattr(layer.self_attn, "indexer", None) is not None:
            own = layer.self_attn.indexer
            own.register_forward_pre_hook(lambda module, *_: inside.append(module.layer_idx))
            own.register_forward_hook(lambda *_: inside.clear())
    torch.matmul = spy
    return seen, lambda: setattr(torch, "matmul", product)


def add_rows(tensors, label, rows, positions):
    for layer, (q, k) in rows.items():
        tensors |= {f"{label}.layer.{layer}.{side}": x[:, positions].contiguous() for side, x in (("q", q), ("k", k))}


def make(out, name, make_config, kind, scaling):
    torch.manual_seed(sum(map(ord, name)))
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    weights = folder / "model.safetensors"
    kind(make_config()).to(torch.bfloat16).save_pretrained(folder)
    described = describe_weights(weights, kind)
    (folder / "weights.json").write_text(json.dumps(described).replace('], "', '],\n"') + "\n")
    write_weights(described, weights)
    ids = torch.randint(3, 96, (1, TOKENS))
    tensors = {"ids": ids[0].to(torch.int32), "position": torch.tensor(POSITIONS, dtype=torch.int32)}
    of_indexers = dict(tensors)
    for label, dtype in (("bf16", torch.bfloat16), ("f32", torch.float32)):
        seen, indexed, loss, used = capture(folder, kind, dtype, ids, scaling)
        add_rows(tensors, label, seen, POSITIONS)
        add_rows(of_indexers, label, indexed, POSITIONS)
    save_file(tensors, folder / "forward.safetensors", metadata={
        "rope_scaling": scaling or "", "loss": f"{loss:.9g}", "attention": used if used == "eager" else ""})
    if indexed:
        save_file(of_indexers, folder / "indexer.safetensors", metadata={"heads_of": "indexer"})
    (folder / "generation_config.json").unlink(missing_ok=True)
    weights.unlink()
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name}: {sorted({t.split('.')[2] for t in tensors if '.' in t})} layers, {size // 1024} KB")


def main(out, names):
    known = families()
    unknown = [name for name in names if name not in known and name != "all"]
    if unknown or not names:
        sys.exit(f"{f'no family {unknown[0]}' if unknown else 'name the families'}; there are all, {', '.join(known)}")
    for name, family in known.items():
        if name in names or "all" in names:
            make(pathlib.Path(out), name, *family)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
