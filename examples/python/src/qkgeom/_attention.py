# SPDX-License-Identifier: MIT
"""Queries and keys of a transformers model, handed to an observer where its own attention takes them."""
from __future__ import annotations

import dataclasses
import inspect
import math
import sys
import types
import typing

import torch


class Unsupported(ValueError):
    """A model or a call that cannot be captured."""


@dataclasses.dataclass(frozen=True)
class Document:
    """Where a document lies in a call: a row of the batch, its columns there, and the position of its first token."""

    row: int
    first: int
    tokens: int
    start: int

    @property
    def end(self) -> int:
        """One past the last position."""
        return self.start + self.tokens

    def rows_of(self, x: torch.Tensor) -> torch.Tensor:
        """The document's rows (heads, tokens, d) of x (batch, heads, tokens, d)."""
        return x[self.row][:, self.first:self.first + self.tokens]


class Observer(typing.Protocol):
    """Takes what a model's calls give. `_end` follows where the call's forward ended, with its tokens and its result, and nothing
    where it failed."""

    def _begin(self, read: typing.Callable[[], list[Document]]) -> None: ...

    def _take(self, module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, options: dict[str, typing.Any]) -> None: ...

    def _end(self, ids: torch.Tensor, result: typing.Any) -> None: ...

    def _refuse(self, why: Exception) -> None:
        """Takes what `_begin`, `_take` or the call itself raised: raises it, or returns, and the call is left out."""


class observed_attention:
    """While entered, `observer._take(module, q, k, options)` is called in each attention layer before the model's own attention
    runs: q (batch, query heads, tokens, d) and k (batch, key heads, tokens, d) after the rotary embedding. before_rope: `rotated`
    then holds q and k from before it too."""

    def __init__(self, model: torch.nn.Module, observer: Observer, before_rope: bool = False) -> None:
        self._model, self._observer, self._before_rope = model, observer, before_rope
        self._rotary: list[tuple[typing.Any, str, typing.Any]] = []  # functions that are replaced: their module, name and value
        self._given: list[torch.Tensor] = []  # to the rotary embedding since the last attention
        self._ids: typing.Any = None
        self._name = f"qkgeom_{id(self):x}"
        self._inner = ""
        self._hooks: list[typing.Any] = []
        self._call: set[int] | None = None  # layers that the running call has given; None: it is left out
        self._running = False
        self.layers: set[int] = set()
        """Layers whose attention ran."""
        self.rotated: tuple[torch.Tensor, torch.Tensor] | None = None
        """q and k of the running layer before its rotary embedding; None: it has none."""

    def __enter__(self) -> None:
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        model: typing.Any = self._model
        if hasattr(model, "_orig_mod") or getattr(model, "_compiled_call_impl", None) is not None:
            raise Unsupported("model is compiled (torch.compile), and a compiled graph does not call the observer: pass the "
                              "model itself")
        if not (hasattr(model, "set_attn_implementation") and hasattr(getattr(model, "config", None), "_attn_implementation")):
            raise Unsupported(f"model must be a model of transformers (a PreTrainedModel), not {type(model).__name__}")
        inner = model.config._attn_implementation
        if str(inner).startswith("qkgeom_"):
            raise Unsupported("model is observed by another capture or Monitor already: one at a time")
        if inner not in ("sdpa", "eager"):
            raise Unsupported(f"model runs the attention {inner!r}; set_attn_implementation('sdpa') or 'eager' gives one that "
                              "can be observed")
        self._inner = inner
        # Without its mask function the mask of a registered attention is None, and an eager model no longer causal.
        ALL_ATTENTION_FUNCTIONS.register(self._name, self._attend)
        ALL_MASK_ATTENTION_FUNCTIONS.register(self._name, ALL_MASK_ATTENTION_FUNCTIONS[inner])
        model.set_attn_implementation(self._name)
        if model.config._attn_implementation != self._name:
            self._unregister()
            raise Unsupported(f"{type(model).__name__} does not call its attention through transformers' attention interface")
        if self._before_rope:
            self._record_rotary()
        self._hooks = [model.register_forward_pre_hook(self._before, with_kwargs=True),
                       model.register_forward_hook(self._after, always_call=True)]

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        for module, name, function in self._rotary:
            setattr(module, name, function)
        self._rotary.clear()
        typing.cast(typing.Any, self._model).set_attn_implementation(self._inner)
        self._unregister()

    def _unregister(self) -> None:
        from transformers.masking_utils import AttentionMaskInterface
        from transformers.modeling_utils import AttentionInterface

        AttentionInterface._global_mapping.pop(self._name, None)
        AttentionMaskInterface._global_mapping.pop(self._name, None)

    def _record_rotary(self) -> None:
        """Notes what the modules that hold the model's attention give to the functions that rotate rows."""
        for module in {code_of(m) for m in self._model.modules() if hasattr(m, "layer_idx")}:
            for name in ("apply_rotary_pos_emb", "apply_rotary_emb"):
                function = getattr(module, name, None)
                if function is None:
                    continue

                def rotate(*args: typing.Any, _function: typing.Any = function, **kwargs: typing.Any) -> typing.Any:
                    if torch._C._current_graph_task_id() < 0:
                        self._given += [x.detach() for x in args[:2] if x.dim() == 4]  # cos and sin have fewer dimensions
                    return _function(*args, **kwargs)

                self._rotary.append((module, name, function))
                setattr(module, name, rotate)

    def _before_rotation(self, module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        given, self._given = self._given, []
        if not given:
            return None
        rows = [x if x.shape == of.shape else x.transpose(1, 2) for x, of in zip(given, (q, k))]
        if [x.shape for x in rows] != [q.shape, k.shape]:
            raise Unsupported(f"pre_rope takes whole heads, and {type(module).__name__} rotates a part of their rows apart from the rest")
        return rows[0], rows[1]

    def _before(self, _: torch.nn.Module, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]) -> None:
        self._running, self._call, self._given = True, None, []

        def read() -> list[Document]:
            self._ids, documents = _documents_of(self._model, args, kwargs)
            return documents

        try:
            self._observer._begin(read)
            self._call = set()
        except Exception as why:
            self._observer._refuse(why)

    def _after(self, _: torch.nn.Module, args: object, result: object) -> None:
        ended = result is not None and self._call is not None  # a forward that raised has no result
        self._running, self._call = False, None
        if ended:
            self._observer._end(self._ids, result)

    def _observe(self, module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, options: dict[str, typing.Any]) -> None:
        if torch._C._current_graph_task_id() >= 0:  # within backward: checkpointing runs again what was seen
            return
        layer = layer_of(module)
        self.layers.add(layer)
        if not self._running:
            raise Unsupported(f"a part of {type(self._model).__name__} was called: call the model itself")
        if self._call is None:
            return
        if not getattr(module, "is_causal", True):
            raise Unsupported(f"{type(module).__name__} is not causal")
        if q.shape[2] != k.shape[2]:
            raise Unsupported(f"{q.shape[2]} queries meet {k.shape[2]} keys: give whole documents, without a cache")
        if layer in self._call:
            raise Unsupported(f"layer {layer} ran twice in a call of the model: which of its rows are the document's is not known")
        self._call.add(layer)
        self.rotated = self._before_rotation(module, q, k) if self._before_rope else None
        with torch.no_grad():
            self._observer._take(module, q.detach(), k.detach(), options)

    def _attend(self, module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                attention_mask: torch.Tensor | None, **options: typing.Any) -> typing.Any:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        try:
            self._observe(module, query, key, options)
        except Exception as why:
            self._call = None
            self._observer._refuse(why)
        if self._inner == "eager":
            own = getattr(code_of(module), "eager_attention_forward", None)
            if own is None:
                raise Unsupported(f"{type(module).__name__} has no eager_attention_forward")
            return own(module, query, key, value, attention_mask, **options)
        return ALL_ATTENTION_FUNCTIONS[self._inner](module, query, key, value, attention_mask, **options)


def _documents_of(model: torch.nn.Module, args: tuple[typing.Any, ...],
                  kwargs: dict[str, typing.Any]) -> tuple[typing.Any, list[Document]]:
    """The tokens, or their embeddings, and the documents of a call, a row of the batch each. Padding, by an attention_mask of ones and
    zeros, belongs to none; positions are position_ids, or else columns of the batch, as the model itself counts."""
    given: dict[str, typing.Any] = {}
    signature = inspect.signature(model.forward)
    for name, value in signature.bind_partial(*args, **kwargs).arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            raise Unsupported(f"{type(model).__name__} takes arguments without names: pass input_ids and what follows by name")
        given.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    ids = given.get("input_ids")
    ids = given.get("inputs_embeds") if ids is None else ids
    if ids is None:
        raise Unsupported("model was called without input_ids")
    if any(hasattr(x, "get_seq_length") and x.get_seq_length() > 0 for x in given.values()):  # a cache that is filled
        raise Unsupported("a decoding step of generate() is no whole document: capture the prompt alone by "
                          "generate(max_new_tokens=1), or the finished text by model(ids)")
    shape = tuple(ids.shape[:2])
    mask, positions = given.get("attention_mask"), given.get("position_ids")
    kept = torch.ones(shape, dtype=torch.bool)
    if mask is not None:
        if tuple(getattr(mask, "shape", ())) != shape:
            raise Unsupported(f"attention_mask must hold a one or a zero for each of {shape[0]} x {shape[1]} tokens: other masks "
                              "change what a query sees")
        kept = mask.cpu() != 0
    if positions is None:
        positions = torch.arange(shape[1])[None]
    if tuple(positions.shape) not in (shape, (1, shape[1])):
        raise Unsupported(f"position_ids must hold a position for each of {shape[0]} x {shape[1]} tokens")
    positions = positions.cpu().expand(shape)
    documents = []
    for row in range(shape[0]):
        columns = kept[row].nonzero()[:, 0]
        if not len(columns) or int(columns[-1] - columns[0]) + 1 != len(columns):
            raise Unsupported("attention_mask must keep one run of tokens of each document, as padding at its ends does")
        own = positions[row][columns]
        if int(own[0]) < 0 or bool((own.diff() != 1).any()):
            raise Unsupported("position_ids must count up by one from 0 or more within a row of the batch: give each packed document a "
                              "row of its own")
        documents.append(Document(row, int(columns[0]), len(columns), int(own[0])))
    return ids, documents


class Attention(typing.NamedTuple):
    """What the softmax of a layer depends on beside q and k."""

    scale: float
    window: int | None
    softcap: float | None
    sinks: torch.Tensor | None  # (query heads) logits of no token

    @classmethod
    def of(cls, module: torch.nn.Module, q: torch.Tensor, options: dict[str, typing.Any]) -> Attention:
        return cls(options.get("scaling") or q.shape[-1] ** -0.5, window_of(module, options), options.get("softcap"),
                   getattr(module, "sinks", None))

    def scores(self, q: torch.Tensor, k: torch.Tensor,
               block: int = 256) -> typing.Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """By blocks of queries: scaled scores (query heads, queries, keys up to the last of them), -inf where a query does not see,
        logits (the same, capped) and the logarithm of the softmax's sum (query heads, queries). q: (query heads, tokens, d),
        k: (key heads, tokens, d)."""
        heads, tokens, _ = q.shape
        q, keys = q.float(), k.float().repeat_interleave(heads // k.shape[0], 0)
        at = torch.arange(tokens, device=q.device)
        for first in range(0, tokens, block):
            queries = at[first:first + block]
            end = first + len(queries)
            hidden = at[:end] > queries[:, None]
            if self.window is not None:
                hidden |= at[:end] <= queries[:, None] - self.window
            scores = (q[:, first:end] @ keys[:, :end].transpose(1, 2) * self.scale).masked_fill(hidden, -math.inf)
            logits = scores if self.softcap is None else self.softcap * torch.tanh(scores / self.softcap)
            logits = logits if self.softcap is None else logits.masked_fill(hidden, -math.inf)
            total = logits.logsumexp(2)
            if self.sinks is not None:
                total = torch.logaddexp(total, self.sinks.detach().float()[:, None])
            yield scores, logits, total


def window_of(module: torch.nn.Module, options: dict[str, typing.Any]) -> int | None:
    """Tokens of the layer's sliding window, the query's own included; None: full attention."""
    window: int | None = options["sliding_window"] if "sliding_window" in options else getattr(module, "sliding_window", None)
    return window or None


def chunk_of(module: torch.nn.Module) -> int | None:
    """Tokens of the chunks within which the layer attends (Llama 4); None: it sees the whole document."""
    config: typing.Any = getattr(module, "config", None)
    kinds = getattr(config, "layer_types", None)
    return config.attention_chunk_size if kinds and kinds[layer_of(module)] == "chunked_attention" else None


def chosen_of(model: torch.nn.Module, tokens: int) -> int | None:
    """The number of keys that the model's indexers choose for a query of documents of so many tokens; None: it sees all."""
    config: typing.Any = getattr(model, "config", None)
    chosen: int | None = getattr(config.get_text_config() if hasattr(config, "get_text_config") else config, "index_topk", None)
    return chosen if chosen and chosen < tokens else None


def code_of(layer: torch.nn.Module) -> types.ModuleType:
    """The Python module that defines a layer. The class that FSDP2 gives a sharded layer is PyTorch's, derived from its own."""
    return next(sys.modules[c.__module__] for c in type(layer).__mro__ if not c.__module__.startswith("torch."))


def layer_of(module: torch.nn.Module) -> int:
    """The layer's number in the model."""
    number = getattr(module, "layer_idx", None)
    if not isinstance(number, int):
        raise Unsupported(f"{type(module).__name__} does not say its layer (layer_idx)")
    return number
