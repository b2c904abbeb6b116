# SPDX-License-Identifier: MIT
"""The rotary embedding of a transformers model, as a capture's manifest has it (docs/formats.md)."""
from __future__ import annotations

import typing

import torch

from ._attention import code_of

Parameters = typing.Dict[str, typing.Any]


def rope_of(model: torch.nn.Module, config: typing.Any, attention: torch.nn.Module, context: int) -> Parameters | None:
    """The manifest's `rope` for documents of up to `context` tokens; None where the model has none that is known.

    attention: one of the model's attention layers, whose module rotates rows.
    """
    embedding = _embedding_of(model, config)
    return None if embedding is None else _parameters(embedding, config, attention, context, _main_type(embedding))


def own_rope_of(model: torch.nn.Module, config: typing.Any, attention: torch.nn.Module, context: int) -> Parameters | None:
    """`rope_parameters` of a layer whose frequencies are not those of `rope_of`; None where they are."""
    embedding = _embedding_of(model, config)
    kinds = getattr(config, "layer_types", None)
    if embedding is None or not kinds:
        return None
    kind = kinds[typing.cast(int, attention.layer_idx)]
    if kind == _main_type(embedding) or not hasattr(embedding, f"{kind}_inv_freq"):
        return None
    return _parameters(embedding, config, attention, context, kind)


def scaling_of(model: torch.nn.Module, config: typing.Any, attention: torch.nn.Module, context: int) -> Parameters:
    """The manifest's fields about what changes with a token's position: `query_growth`, `model_context`. The numbers are
    transformers' own."""
    fields: Parameters = {}
    rope, longest = _main_rope(model, config) or {}, longest_context(model, config)
    if longest is None:
        return fields
    original = rope.get("original_max_position_embeddings", config.max_position_embeddings)
    if context > longest:
        fields["model_context"] = longest
    # Ministral 3's queries after the rotation, and Llama 4's without one.
    if rope.get("llama_4_scaling_beta") and hasattr(code_of(attention), "get_llama_4_attn_scale"):
        fields["query_growth"] = {"beta": rope["llama_4_scaling_beta"], "context": original}
    elif getattr(attention, "attn_temperature_tuning", False):
        fields["query_growth"] = {"beta": attention.attn_scale, "context": attention.floor_scale, "layers": "nope"}
    return fields


def longest_context(model: torch.nn.Module, config: typing.Any) -> int | None:
    """Tokens that the model was made for, the scaling of its rotary embedding included; None where it does not say."""
    longest: int | None = getattr(config, "max_position_embeddings", None)
    rope = _main_rope(model, config)
    if longest is None or rope is None:
        return longest
    kind = rope.get("rope_type")
    original = rope.get("original_max_position_embeddings", longest)
    if kind in ("linear", "dynamic"):
        return max(longest, int(longest * rope["factor"]))
    if kind in ("yarn", "llama3"):
        return max(longest, int(original * (rope.get("factor") or longest / original)))
    return longest


def check_order(rope: Parameters, tokens: list[int]) -> None:
    """Raises ValueError where a document had the frequencies of an earlier, longer one: transformers keeps those of dynamic
    scaling until a document comes that needs none."""
    if "dynamic" not in rope:
        return
    context = kept = rope["dynamic"]["context"]
    for n in tokens:
        kept = context if n < context else max(kept, n)
        if kept != max(n, context):
            raise ValueError(f"a document of {n} tokens had the rotary frequencies of an earlier one of {kept}, which transformers "
                             "keeps under dynamic scaling: give documents in the order of their length")


def rotates(model: torch.nn.Module, config: typing.Any, layer: int) -> bool:
    """Whether a layer has a rotary embedding (else NoPE)."""
    if not any(_is_embedding(m) for m in model.modules()):
        return False
    marked = getattr(config, "no_rope_layers", None)  # 0: a layer without
    if marked:
        return bool(marked[layer])
    if config.model_type == "granitemoehybrid":
        return bool(config.position_embedding_type == "rope")
    if config.model_type == "cohere2" or (config.model_type == "exaone4" and config.sliding_window is not None):
        return bool(config.layer_types[layer] == "sliding_attention")
    return True


def _is_embedding(module: torch.nn.Module) -> bool:
    return type(module).__name__.endswith("RotaryEmbedding")


def norm_of(model: torch.nn.Module, config: typing.Any, attention: torch.nn.Module, layer: int) -> Parameters | None:
    """`norm` of a layer that norms queries and keys after the rotation (HunYuan, Llama 4); None where it does not."""
    if hasattr(attention, "qk_norm") and rotates(model, config, layer):
        return {"eps": config.rms_norm_eps}
    query, key = (getattr(attention, f"{side}_layernorm", None) for side in ("query", "key"))
    if not config.model_type.startswith("hunyuan") or query is None or key is None:
        return None
    return {"eps": config.rms_norm_eps, "query": _floats(query.weight.detach().cpu()), "key": _floats(key.weight.detach().cpu())}


def _embedding_of(model: torch.nn.Module, config: typing.Any) -> typing.Any:
    return next((m for m in model.modules() if _is_embedding(m) and getattr(m, "config", None) is config), None)


def _main_rope(model: torch.nn.Module, config: typing.Any) -> Parameters | None:
    """The rotary parameters in the configuration that the manifest's `rope` is made of."""
    embedding = _embedding_of(model, config)
    if embedding is None:
        return None
    main = _main_type(embedding)
    return typing.cast(Parameters, config.rope_parameters[main] if main else config.rope_parameters)


def _main_type(embedding: typing.Any) -> str | None:
    """The layer type whose frequencies the manifest's `rope` has; None where all layers share them."""
    return "full_attention" if hasattr(embedding, "full_attention_inv_freq") else None


def _parameters(embedding: typing.Any, config: typing.Any, attention: torch.nn.Module, context: int,
                kind: str | None) -> Parameters | None:
    interleaved = _interleaved(attention)
    if interleaved is None:
        return None
    before = f"{kind}_" if kind else ""
    # A dynamic embedding changes inv_freq with the documents that it has seen.
    frequencies = getattr(embedding, f"{before}original_inv_freq", getattr(embedding, f"{before}inv_freq"))
    factor = getattr(embedding, f"{before}attention_scaling", 1.0)
    rope = config.rope_parameters[kind] if kind else config.rope_parameters
    by_length: Parameters = {}
    if rope.get("rope_type") == "longrope":
        frequencies, factor = _longrope(config, context)
        original = rope["original_max_position_embeddings"]
        by_length["longrope"] = {"context": original, "short": _floats(_longrope(config, original)[0]),
                                 "long": _floats(_longrope(config, original + 1)[0])}
    elif rope.get("rope_type") == "dynamic" and not rope.get("alpha"):  # with alpha it is HunYuan's base
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        frequencies, factor = ROPE_INIT_FUNCTIONS["dynamic"](config, torch.device("cpu"), seq_len=context, layer_type=kind)
        by_length["dynamic"] = {"context": config.max_position_embeddings, "theta": rope["rope_theta"], "factor": rope["factor"]}
    first = getattr(attention, "qk_nope_head_dim", 0)  # latent attention turns the end of a head
    return {"style": "interleaved" if interleaved else "half", "rotary_dim": 2 * len(frequencies), "attention_factor": float(factor),
            "inv_freq": _floats(frequencies), **by_length, **({"first": first} if first else {})}


def _longrope(config: typing.Any, tokens: int) -> tuple[torch.Tensor, float]:
    """Frequencies and attention factor for a document of that many tokens."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    return typing.cast("tuple[torch.Tensor, float]", ROPE_INIT_FUNCTIONS["longrope"](config, torch.device("cpu"), seq_len=tokens))


def _floats(x: torch.Tensor) -> list[float]:
    return typing.cast("list[float]", x.double().tolist())


def _interleaved(attention: torch.nn.Module) -> bool | None:
    """Whether channels 2j and 2j + 1 turn together, rather than j and j + rotary_dim / 2; None if the model does not say."""
    module = code_of(attention)
    rotate, complex_, halves, parted = (getattr(module, n, None) for n in ("rotate_half", "apply_rotary_emb", "_apply_rotary_emb",
                                                                         "apply_rotary_pos_emb_interleave"))
    if rotate is not None:
        rotated = rotate(torch.arange(4.0)).tolist()
    elif complex_ is not None:  # Llama 4 multiplies complex numbers, here by i
        row = torch.arange(4.0).view(1, 1, 1, 4)
        rotated = complex_(row, row, torch.full((1, 1, 2), 1j))[0].flatten().tolist()
    elif halves is not None:  # GPT-OSS, here by a quarter turn
        rotated = halves(torch.arange(4.0), torch.zeros(2), torch.ones(2)).tolist()
    elif parted is not None:  # GLM 5 gives neighbours back as halves
        row = torch.tensor([0.0, 2.0, 1.0, 3.0]).view(1, 1, 1, 4)
        rotated = parted(row, row, torch.zeros(1, 1, 4), torch.ones(1, 1, 4))[0].flatten().tolist()
    else:
        return None
    return {(-1.0, 0.0, -3.0, 2.0): True, (-2.0, -3.0, 0.0, 1.0): False}.get(typing.cast(typing.Any, tuple(rotated)))
