# SPDX-License-Identifier: MIT
"""Captures of what transformers runs."""
from __future__ import annotations

import json
import os
import pathlib
import tempfile
import typing
import warnings

import numpy as np
import torch

from . import _qkgeom
from ._attention import Attention, Document, Unsupported, chosen_of, chunk_of, layer_of, observed_attention
from ._captures import Bands, Capture, Grip, Options, Path, WhatIf, open_capture
from ._qkgeom import Moments, accumulate, draw_tokens
from ._rope import check_order, longest_context, norm_of, own_rope_of, rope_of, rotates, scaling_of
from ._version import __version__

if typing.TYPE_CHECKING:
    from typing_extensions import Unpack


def _short_name(dtype: torch.dtype) -> str:
    """As qkgeom capture names it: f32, bf16."""
    return str(dtype).removeprefix("torch.").replace("float", "f")


class _Layer:
    def __init__(self, module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, options: dict[str, typing.Any]) -> None:
        self.module = module
        self.attention = Attention.of(module, q, options)
        self.heads, self.key_heads, self.head_dim = q.shape[1], k.shape[1], q.shape[3]
        # Rows of each side per document, with their positions and the document's number.
        self.kept: dict[str, list[tuple[torch.Tensor, np.ndarray[typing.Any, typing.Any], int]]] = {"q": [], "k": []}
        self.moments: Moments | None = None
        self.softmax: list[dict[str, torch.Tensor]] = []  # by document

    def add(self, moments: Moments | None) -> None:
        self.moments = moments if self.moments is None or moments is None else self.moments.merge(moments)


def _distance_bins(tokens: int) -> int:
    """Bins of distances 0, 1, 2 to 3, 4 to 7, ... below `tokens`."""
    return max(tokens - 1, 0).bit_length() + 1


def _softmax_sums(attention: Attention, document: Document, q: torch.Tensor, k: torch.Tensor, heads: list[int],
                  width: int) -> dict[str, torch.Tensor]:
    """Sums over the queries of each bucket, f64: their count (buckets), and by head the attention on the first 1, 4, 64 tokens
    (heads, buckets, 3) and by distance (heads, buckets, distances), and its entropy in nats (heads, buckets)."""
    at = torch.arange(document.start, document.end, device=q.device)
    buckets, bins = -(-document.end // width), _distance_bins(document.end)
    shapes = {"first": (len(q), buckets, 3), "distance": (len(q), buckets, bins), "entropy": (len(q), buckets)}
    sums = {name: torch.zeros(shape, dtype=torch.float64, device=q.device) for name, shape in shapes.items()}
    first = 0
    for _, logits, total in attention.scores(q, k):
        queries, keys = logits.shape[1:]
        logits = logits - total[:, :, None]
        weights = logits.exp()
        entropy = -(weights * logits.nan_to_num(neginf=0)).sum(2, dtype=torch.float64)
        if attention.sinks is not None:
            sink = attention.sinks.detach().float()[:, None] - total
            entropy -= (sink.exp() * sink).double()
        weights = weights.double()
        distance = (at[first:first + queries, None] - at[:keys]).clamp(min=0)
        bin_of = torch.where(distance > 0, distance.clamp(min=1).double().log2().long() + 1, 0)
        found = {"first": torch.stack([weights[:, :, at[:keys] < n].sum(2) for n in (1, 4, 64)], 2), "entropy": entropy,
                 "distance": torch.zeros(len(q), queries, bins, dtype=torch.float64, device=q.device).scatter_add_(
                     2, bin_of.expand(len(q), -1, -1), weights)}
        for name, x in found.items():
            sums[name].index_add_(1, at[first:first + queries] // width, x)
        first += queries
    return {"count": torch.bincount(at.cpu() // width, minlength=buckets).double(), **{name: x[heads].cpu() for name, x in sums.items()}}


def _losses(document: Document, ids: torch.Tensor, result: typing.Any, width: int) -> dict[str, torch.Tensor]:
    """Sums of -ln p of the next token, and their count, by the bucket of the position that predicts it: (buckets), f64."""
    logits = getattr(result, "logits", None)
    if logits is None or ids.dim() != 2 or logits.shape[1] != ids.shape[1]:
        raise Unsupported("loss=True needs input_ids, and logits of every token in the model's result")
    columns = slice(document.first, document.first + document.tokens)
    logits, ids = logits[document.row, columns][:-1].detach().float(), ids[document.row, columns][1:]
    lost = torch.nn.functional.cross_entropy(logits, ids, reduction="none").double().cpu()
    bucket = torch.arange(document.start, document.end - 1) // width
    buckets = -(-document.end // width)
    return {"sum": torch.bincount(bucket, lost, buckets), "count": torch.bincount(bucket, minlength=buckets).double()}


class capture:
    """Captures a transformers model while it is called: `with qkgeom.capture(model) as cap: model(ids)`.

    Each row of a batch is a document. Tokens that an attention_mask of ones and zeros pads it with are left out; positions are
    position_ids where they are given, else columns of the batch, as the model counts them. The model's own attention runs, so
    that its outputs do not change by a bit. Rows are kept of calls that end; what gradient checkpointing runs again is not
    taken again, and generate() gives its prompt, after which its decoding steps are refused.
    heads: "all", or (layer, q_head) pairs. rate: tokens kept of bucket_size, drawn as `qkgeom capture` draws them (4.1.2),
    with `seed`. bucket_size: in tokens; None: a sixteenth of max_length, or of the first call's longest document.
    keep: "samples", "moments" (of every token, mergeable), or "both". pre_rope: rows from before the rotary embedding, as exports
    need them. softmax: also sums of each query's attention by bucket: its share on the first tokens and by distance, its entropy
    (all queries, about as dear as an eager attention). loss: also the loss of the next token by bucket. max_length: the context
    length L in tokens that is written; None: the longest document's.
    Raises ValueError where a model or a call cannot be captured.
    """

    def __init__(self, model: torch.nn.Module, heads: typing.Literal["all"] | typing.Sequence[tuple[int, int]] = "all",
                 rate: float = 24, bucket_size: int | None = None, *, keep: typing.Literal["samples", "moments", "both"] = "samples",
                 pre_rope: bool = False, softmax: bool = False, loss: bool = False, seed: int = 0, same_positions: bool = False,
                 max_length: int | None = None, name: str | None = None) -> None:
        if keep not in ("samples", "moments", "both"):
            raise ValueError(f"keep must be samples, moments or both, not {keep!r}")
        if (bucket_size is not None and bucket_size < 1) or not rate > 0:
            raise ValueError(f"rate and bucket_size must be positive, not {rate} and {bucket_size}")
        self._model, self._keep, self._seed, self._same = model, keep, seed, same_positions
        self._pre_rope, self._softmax, self._loss = pre_rope, softmax, loss
        self._heads = None if isinstance(heads, str) else {(int(layer), int(h)) for layer, h in heads}
        if isinstance(heads, str) and heads != "all":
            raise ValueError(f"heads must be 'all' or (layer, q_head) pairs, not {heads!r}")
        self._rate, self._bucket_size, self._max_length, self._name = rate, bucket_size, max_length, name
        if self._heads is not None and any(h < 0 for _, h in self._heads):
            raise ValueError(f"heads must be (layer, q_head) pairs counted from 0, not {heads!r}")
        self._layers: dict[int, _Layer] = {}
        self._documents: list[Document] = []
        self._losses: list[dict[str, torch.Tensor]] = []  # by document
        self._call: tuple[list[Document], dict[int, _Layer]] = ([], {})  # of the call that runs
        self._observed = observed_attention(model, self, before_rope=pre_rope)

    def __enter__(self) -> capture:
        self._observed.__enter__()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._observed.__exit__()
        if kind is not None or not self._documents:
            return
        seen = self._observed.layers
        missing = sorted({layer for layer, _ in self._heads or ()} - seen)
        if not seen:
            raise Unsupported(f"{type(self._model).__name__} was called, and no attention of it went through transformers' attention "
                              "interface, where rows are taken")
        if missing:
            raise Unsupported(f"heads names layer {missing[0]}, and attention ran in layers {sorted(seen)}")
        if not self._layers:
            raise Unsupported("every layer attends within chunks that are shorter than the documents")

    def _begin(self, read: typing.Callable[[], list[Document]]) -> None:
        documents = read()
        longest = max(d.end for d in documents)
        if self._max_length is not None and longest > self._max_length:
            raise ValueError(f"max_length is {self._max_length} tokens, but a document has {longest}")
        if self._keep != "samples" and self._max_length is None and self._documents and longest != self._context():
            raise ValueError(f"documents of {longest} tokens follow some of {self._context()}, and moments merge over one context "
                             "length: give max_length")
        chosen = chosen_of(self._model, longest)
        if self._softmax and chosen is not None:
            raise ValueError(f"softmax compares all keys up to a query, but this model's attention sees the {chosen} that an indexer "
                             f"chooses: give documents of up to {chosen} tokens")
        self._call = (documents, {})

    def _context(self) -> int:
        return self._max_length or max(d.end for d in self._documents)

    def _refuse(self, why: Exception) -> None:
        raise why

    def _width(self) -> int:
        """Tokens of a bucket, which the first call's documents decide where it was not given."""
        return self._bucket_size or -(-(self._max_length or max(d.end for d in self._call[0])) // 16)

    def _end(self, ids: torch.Tensor, result: typing.Any) -> None:
        documents, layers = self._call
        losses = [_losses(d, ids, result, self._width()) for d in documents] if self._loss else []
        self._bucket_size = self._width()
        for number, new in layers.items():
            layer = self._layers.setdefault(number, new)
            if layer is not new:
                layer.add(new.moments)
                layer.softmax += new.softmax
                for side, rows in new.kept.items():
                    layer.kept[side] += rows
        self._losses += losses
        self._documents += documents

    def _take(self, module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, options: dict[str, typing.Any]) -> None:
        number = layer_of(module)
        if self._heads is not None and not any(layer == number for layer, _ in self._heads):
            return
        documents, layers = self._call
        chunk = chunk_of(module)
        if chunk is not None and chunk < (self._max_length or q.shape[2]):
            if number not in self._layers and self._heads is None:
                return
            raise Unsupported(f"layer {number} attends within chunks of {chunk} tokens, which analyses do not know: give documents "
                              f"of up to {chunk} tokens, or heads of other layers")
        layer = layers[number] = _Layer(module, q, k, options)
        if self._softmax:
            heads = self._chosen(number, "q", layer)
            layer.softmax = [_softmax_sums(layer.attention, d, d.rows_of(q), d.rows_of(k), heads, self._width()) for d in documents]
        if self._pre_rope:
            config: typing.Any = typing.cast(typing.Any, self._model).config
            changed = rotates(self._model, config.get_text_config(), number) or getattr(module, "attn_temperature_tuning", False)
            if self._observed.rotated is None and changed:
                raise Unsupported(f"pre_rope: {type(module).__name__} changes the rows of layer {number} by position in a way of its own")
            q, k = self._observed.rotated or (q, k)
        for index, document in enumerate(documents, len(self._documents)):
            if self._keep != "moments":
                for side, x in (("q", q), ("k", k)):
                    drawn_as = "q" if self._same else side
                    drawn = np.array(draw_tokens("uniform", self._width(), self._rate, 0, document.end, self._seed, index, number,
                                                 drawn_as), dtype=np.int64)
                    kept = drawn[drawn >= document.start]
                    at = torch.from_numpy(kept - document.start).to(x.device)
                    rows = document.rows_of(x)[self._chosen(number, side, layer)].index_select(1, at).transpose(0, 1)
                    layer.kept[side].append((rows.contiguous().cpu(), kept, index))
            if self._keep != "samples":
                position = torch.arange(document.start, document.end, dtype=torch.int32)
                layer.add(accumulate(document.rows_of(q).transpose(0, 1).cpu(), document.rows_of(k).transpose(0, 1).cpu(), position,
                                     buckets=self._width(), context_length=self._max_length or max(d.end for d in documents)))

    def _chosen(self, number: int, side: str, layer: _Layer) -> list[int]:
        """The heads of a side that are kept, by their numbers in the model."""
        if self._heads is None:
            return list(range(layer.heads if side == "q" else layer.key_heads))
        heads = sorted(h for at, h in self._heads if at == number)
        if heads[-1] >= layer.heads:
            raise ValueError(f"heads names head {heads[-1]} of layer {number}, which has {layer.heads}")
        return heads if side == "q" else sorted({h // (layer.heads // layer.key_heads) for h in heads})

    @property
    def layers(self) -> list[int]:
        """Layers seen so far."""
        return sorted(self._layers)

    @property
    def tokens(self) -> list[int]:
        """Tokens of each document."""
        return [d.tokens for d in self._documents]

    @property
    def moments(self) -> dict[int, Moments]:
        """Moments of every token, by layer."""
        return {n: x.moments for n, x in self._layers.items() if x.moments is not None}

    def _written(self) -> dict[int, _Layer]:
        """The layers that a capture holds: heads of one shape, that of full attention where it differs (Gemma 4)."""
        layers = dict(sorted(self._layers.items()))
        like = next((x for x in layers.values() if x.attention.window is None), next(iter(layers.values())))
        written = {n: x for n, x in layers.items() if (x.heads, x.key_heads, x.head_dim) == (like.heads, like.key_heads, like.head_dim)}
        if len(written) < len(layers):
            warnings.warn(f"layers {sorted(layers.keys() - written.keys())} are left out: their heads have another shape than those of "
                          f"layers {list(written)}, and a capture holds one", stacklevel=3)
        return written

    def _manifest(self, layers: dict[int, _Layer]) -> dict[str, typing.Any]:
        whole: typing.Any = typing.cast(typing.Any, self._model).config
        config = whole.get_text_config() if hasattr(whole, "get_text_config") else whole
        first = next(iter(layers.values()))
        length = self._context()
        # A window that no document fills counts as none.
        filled = max(length, longest_context(self._model, config) or 0)
        manifest: dict[str, typing.Any] = {
            "format": "qkgeom-capture", "version": 1, "rope_stage": "pre" if self._pre_rope else "post", "seed": self._seed,
            "written_by": f"qkgeom {__version__} (Python)",
            "model": {"name": self._name or pathlib.PurePath(whole.name_or_path).name or whole.model_type, "model_type": whole.model_type,
                      "head_dim": first.head_dim, "n_layers": config.num_hidden_layers, "n_query_heads": first.heads,
                      "n_key_heads": first.key_heads},
            "context_length": length, "bucket": {"kind": "uniform", "size": self._bucket_size},
            "rate": min(1.0, self._rate / self._width()),
            "compute_dtype": _short_name(typing.cast(typing.Any, self._model).dtype),
            "examples": [{"index": i, "id": str(i), "tokens": d.end} for i, d in enumerate(self._documents)],
            "layers": [{"layer": n, "rope": rotates(self._model, config, n),
                        "window": x.attention.window if x.attention.window and x.attention.window < filled else None,
                        "query_heads": self._chosen(n, "q", x), "key_heads": self._chosen(n, "k", x)}
                       for n, x in layers.items()],
        }
        if getattr(config, "max_position_embeddings", None):
            manifest["model"]["context"] = config.max_position_embeddings
        rope = rope_of(self._model, config, first.module, length)
        if rope is not None:
            check_order(rope, [d.end for d in self._documents])
            manifest["rope"] = rope
        manifest |= scaling_of(self._model, config, first.module, length)
        for layer in manifest["layers"]:
            own = own_rope_of(self._model, config, layers[layer["layer"]].module, length)
            if own is not None:
                layer["rope_parameters"] = own
            norm = norm_of(self._model, config, layers[layer["layer"]].module, layer["layer"])
            if norm is not None:
                layer["norm"] = norm
        plain = getattr(first.module, "qk_nope_head_dim", None)
        if plain is not None:  # latent attention
            manifest["head_parts"] = {"nope": [0, plain], "rope": [plain, first.head_dim]}
        if self._same:
            manifest["same_positions"] = True
        # As qkgeom capture: named where the model has a scale of its own, even if that is 1/sqrt(head_dim).
        scale = first.attention.scale
        if any(getattr(config, n, None) is not None for n in ("query_pre_attn_scalar", "attention_multiplier", "kv_lora_rank")) or not \
                np.isclose(scale, first.head_dim ** -0.5, rtol=1e-12, atol=0):
            manifest["score_scale"] = scale
        if first.attention.softcap is not None:
            manifest["score_softcap"] = first.attention.softcap
        sinks = {str(n): x.attention.sinks.detach().float().tolist() for n, x in layers.items() if x.attention.sinks is not None}
        if sinks:
            manifest["sinks"] = sinks
        chosen = chosen_of(self._model, length)
        if chosen is not None:
            manifest["notes"] = [{"note": "chosen_keys", "text": f"past {chosen} tokens the attention sees the {chosen} keys that an indexer "
                                  "chooses, and analyses compare all keys up to a query"}]
        if self._softmax:
            manifest["softmax"] = {"bucket_size": self._bucket_size, "queries": self._bucket_size}
        if self._loss:
            manifest["loss"] = {"bucket_size": self._bucket_size}
        return manifest

    def _statistics(self, layers: dict[int, _Layer]) -> dict[str, np.ndarray[typing.Any, typing.Any]]:
        """Tensors of the softmax and the losses (docs/formats.md); buckets and distances that a document lacks are 0."""
        length = self._context()
        found = {f"layer.{n}.attention.{name}": [sums[name] for sums in layer.softmax]
                 for n, layer in layers.items() for name in ("count", "first", "distance", "entropy") if layer.softmax}
        if self._loss:
            found |= {f"loss.{name}": [sums[name] for sums in self._losses] for name in ("sum", "count")}
        whole = {}
        for name, documents in found.items():
            sizes = list(documents[0].shape)
            sizes[min(1, len(sizes) - 1)] = -(-length // self._width())
            if name.endswith(".distance"):
                sizes[2] = _distance_bins(length)
            whole[name] = np.zeros((len(documents), *sizes))
            for to, sums in zip(whole[name], documents):
                to[tuple(map(slice, sums.shape))] = sums.numpy()
        return whole

    def write(self, folder: Path) -> pathlib.Path:
        """Writes the rows as a capture (docs/formats.md), which every program reads. Raises ValueError naming the file."""
        if self._keep == "moments" or not self._layers:
            raise ValueError("nothing to write: " + ("no call of the model was captured" if not self._layers else
                                                     "keep='moments' keeps no rows"))
        layers, arrays = self._written(), []
        for number, layer in layers.items():
            one: list[typing.Any] = [number]
            for side in ("q", "k"):
                rows, positions, documents = zip(*layer.kept[side])
                one += [torch.cat(rows), np.concatenate(positions).astype(np.int32),
                        np.repeat(np.array(documents, dtype=np.int32), [len(p) for p in positions])]
            arrays.append(tuple(one))
        _qkgeom.write_capture(os.fspath(folder), json.dumps(self._manifest(layers)), arrays, self._statistics(layers))
        return pathlib.Path(folder)

    def open(self, **options: Unpack[Options]) -> Capture:
        """The rows as `qkgeom.open_capture` gives them; options are its own."""
        folder = tempfile.mkdtemp()
        return open_capture(self.write(folder), **options)._owning(folder)

    def export(self, format: typing.Literal["expected-attention", "triattention", "tria", "duo", "rope-profiler"],
               folder: Path | None = None, *, texts: str | None = None, sink: int = 64, recent: int = 256) -> pathlib.Path:
        """As `Capture.export`, of `open()`."""
        return self.open().export(format, folder, texts=texts, sink=sink, recent=recent)

    def what_if(self, context: int = 0, *, rope_theta: float | None = None, rope_scaling: str = "", keep_first: int = 4) -> WhatIf:
        """As `Capture.what_if`, of `open()`."""
        return self.open().what_if(context, rope_theta=rope_theta, rope_scaling=rope_scaling, keep_first=keep_first)

    def bands(self, context: int = 0, *, keep_first: int = 4) -> Bands:
        """As `Capture.bands`, of `open()`."""
        return self.open().bands(context, keep_first=keep_first)

    def grip(self, context: int = 0, *, rope_theta: float | None = None, rope_scaling: str = "", near: int = 0,
             queries: int = 32, actual: typing.Sequence[Path] = ()) -> Grip:
        """As `Capture.grip`, of `open()`."""
        return self.open().grip(context, rope_theta=rope_theta, rope_scaling=rope_scaling, near=near, queries=queries, actual=actual)


__all__ = ["Unsupported", "capture"]
