# SPDX-License-Identifier: MIT
"""Queries and keys of a transformers model, handed to an observer where its own attention takes them."""
from __future__ import annotations

import sys
import typing

import torch

Observer = typing.Callable[[torch.nn.Module, torch.Tensor, torch.Tensor, "dict[str, typing.Any]"], None]


class Unsupported(ValueError):
    """A model or a call that cannot be captured."""


class observed_attention:
    """While entered, `observer(module, q, k, options)` is called in each attention layer before the model's own attention
    runs: q (batch, query heads, tokens, d) and k (batch, key heads, tokens, d) after the rotary embedding."""

    def __init__(self, model: torch.nn.Module, observer: Observer, begin: typing.Callable[[int, int], None]) -> None:
        self._model, self._observer, self._begin = model, observer, begin
        self._name = f"qkgeom_{id(self):x}"
        self._inner = ""
        self._hook: typing.Any = None

    def __enter__(self) -> None:
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        model: typing.Any = self._model
        if hasattr(model, "_orig_mod") or getattr(model, "_compiled_call_impl", None) is not None:
            raise Unsupported("model is compiled (torch.compile), and a compiled graph does not call the observer: pass the "
                              "model itself")
        inner = getattr(getattr(model, "config", None), "_attn_implementation", None)
        if inner not in ("sdpa", "eager"):
            raise Unsupported(f"model runs the attention {inner!r}; set_attn_implementation('sdpa') or 'eager' gives one that "
                              "can be observed")
        checkpointing = ("is_activation_checkpointing" if hasattr(type(model), "is_activation_checkpointing")
                         else "is_gradient_checkpointing")
        if getattr(model, checkpointing, False) and model.training:
            raise Unsupported("model checkpoints gradients, which runs each attention twice: gradient_checkpointing_disable()")
        self._inner = inner
        # Without its mask function the mask of a registered attention is None, and an eager model no longer causal.
        ALL_ATTENTION_FUNCTIONS.register(self._name, self._attend)
        ALL_MASK_ATTENTION_FUNCTIONS.register(self._name, ALL_MASK_ATTENTION_FUNCTIONS[inner])
        model.set_attn_implementation(self._name)
        if model.config._attn_implementation != self._name:
            self._unregister()
            raise Unsupported(f"{type(model).__name__} does not call its attention through transformers' attention interface")
        self._hook = model.register_forward_pre_hook(self._before, with_kwargs=True)

    def __exit__(self, *_: object) -> None:
        self._hook.remove()
        typing.cast(typing.Any, self._model).set_attn_implementation(self._inner)
        self._unregister()

    def _unregister(self) -> None:
        from transformers.masking_utils import AttentionMaskInterface
        from transformers.modeling_utils import AttentionInterface

        AttentionInterface._global_mapping.pop(self._name, None)
        AttentionMaskInterface._global_mapping.pop(self._name, None)

    def _before(self, _: torch.nn.Module, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]) -> None:
        ids = kwargs.get("input_ids")
        ids = ids if ids is not None else kwargs.get("inputs_embeds")
        ids = ids if ids is not None else (args[0] if args else None)
        if ids is None:
            raise Unsupported("model was called without input_ids")
        mask = kwargs.get("attention_mask")
        if isinstance(mask, torch.Tensor) and not bool((mask != 0).all()):
            raise Unsupported("attention_mask leaves tokens out: pass documents of one length, or one at a time")
        if kwargs.get("position_ids") is not None:
            raise Unsupported("position_ids: documents begin at position 0 here, leave them out")
        self._begin(int(ids.shape[0]), int(ids.shape[1]))

    def _attend(self, module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                attention_mask: torch.Tensor | None, **options: typing.Any) -> typing.Any:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        if not getattr(module, "is_causal", True):
            raise Unsupported(f"{type(module).__name__} is not causal")
        if query.shape[2] != key.shape[2]:
            raise Unsupported(f"{query.shape[2]} queries meet {key.shape[2]} keys: give whole documents, without a cache")
        with torch.no_grad():
            self._observer(module, query.detach(), key.detach(), options)
        if self._inner == "eager":
            own = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
            if own is None:
                raise Unsupported(f"{type(module).__name__} has no eager_attention_forward")
            return own(module, query, key, value, attention_mask, **options)
        return ALL_ATTENTION_FUNCTIONS[self._inner](module, query, key, value, attention_mask, **options)


def window_of(module: torch.nn.Module, options: dict[str, typing.Any]) -> int | None:
    """Tokens of the layer's sliding window, the query's own included; None: full attention."""
    window: int | None = options["sliding_window"] if "sliding_window" in options else getattr(module, "sliding_window", None)
    return window or None


def chunk_of(module: torch.nn.Module) -> int | None:
    """Tokens of the chunks within which the layer attends (Llama 4); None: it sees the whole document."""
    config: typing.Any = getattr(module, "config", None)
    kinds = getattr(config, "layer_types", None)
    return config.attention_chunk_size if kinds and kinds[layer_of(module)] == "chunked_attention" else None


def layer_of(module: torch.nn.Module) -> int:
    """The layer's number in the model."""
    number = getattr(module, "layer_idx", None)
    if not isinstance(number, int):
        raise Unsupported(f"{type(module).__name__} does not say its layer (layer_idx)")
    return number
