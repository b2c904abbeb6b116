# SPDX-License-Identifier: MIT
"""Captures of what transformers runs."""
from __future__ import annotations

import json
import os
import pathlib
import tempfile
import typing

import numpy as np
import torch

from . import _qkgeom
from ._attention import Unsupported, chunk_of, layer_of, observed_attention, window_of
from ._captures import Capture, Path, open
from ._qkgeom import Moments, accumulate, draw_tokens
from ._rope import own_rope_of, rope_of, rotates, scaling_of
from ._version import __version__


def _short_name(dtype: torch.dtype) -> str:
    """As qkgeom capture names it: f32, bf16."""
    return str(dtype).removeprefix("torch.").replace("float", "f")


class _Layer:
    def __init__(self, module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, options: dict[str, typing.Any]) -> None:
        sinks = getattr(module, "sinks", None)
        self.module = module
        self.scale, self.softcap = options.get("scaling"), options.get("softcap")
        self.window = window_of(module, options)
        self.sinks: list[float] | None = None if sinks is None else sinks.detach().float().tolist()
        self.heads, self.key_heads, self.head_dim = q.shape[1], k.shape[1], q.shape[3]
        # Rows of each side per document, with their positions and the document's number.
        self.kept: dict[str, list[tuple[torch.Tensor, np.ndarray[typing.Any, typing.Any], int]]] = {"q": [], "k": []}


class capture:
    """Captures a transformers model while it is called: `with qkgeom.capture(model) as cap: model(ids)`.

    Each row of a batch is a document. The model's own attention runs, so that its outputs do not change by a bit.
    heads: "all", or (layer, head) pairs. rate: tokens kept of bucket_size, drawn as `qkgeom capture` draws them (4.1.2),
    with `seed`. keep: "samples", "moments" (of every token, mergeable), or "both". max_length: the context length L in
    tokens that is written; None: the longest document's.
    Raises ValueError where a model or a call cannot be captured.
    """

    def __init__(self, model: torch.nn.Module, heads: typing.Literal["all"] | typing.Sequence[tuple[int, int]] = "all",
                 rate: float = 24, bucket_size: int = 512, *, keep: typing.Literal["samples", "moments", "both"] = "samples",
                 seed: int = 0, same_positions: bool = False, max_length: int | None = None, name: str | None = None) -> None:
        if keep not in ("samples", "moments", "both"):
            raise ValueError(f"keep must be samples, moments or both, not {keep!r}")
        if bucket_size < 1 or not rate > 0:
            raise ValueError(f"rate and bucket_size must be positive, not {rate} and {bucket_size}")
        self._model, self._keep, self._seed, self._same = model, keep, seed, same_positions
        self._heads = None if isinstance(heads, str) else {(int(layer), int(h)) for layer, h in heads}
        if isinstance(heads, str) and heads != "all":
            raise ValueError(f"heads must be 'all' or (layer, head) pairs, not {heads!r}")
        self._rate, self._bucket_size, self._max_length, self._name = rate, bucket_size, max_length, name
        self._first = 0
        self._layers: dict[int, _Layer] = {}
        self._tokens: list[int] = []
        self._observed = observed_attention(model, self._take, self._begin)
        self.moments: dict[int, Moments] = {}
        """Moments of every token, by layer."""

    def __enter__(self) -> capture:
        self._observed.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._observed.__exit__(*error)

    def _begin(self, documents: int, tokens: int) -> None:
        if self._max_length is not None and tokens > self._max_length:
            raise ValueError(f"max_length is {self._max_length} tokens, but a document has {tokens}")
        self._first = len(self._tokens)
        self._tokens += [tokens] * documents

    def _take(self, module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, options: dict[str, typing.Any]) -> None:
        number = layer_of(module)
        if self._heads is not None and not any(layer == number for layer, _ in self._heads):
            return
        layer = self._layers.get(number)
        chunk = chunk_of(module)
        if chunk is not None and chunk < (self._max_length or q.shape[2]):
            if layer is None and self._heads is None:
                return
            raise Unsupported(f"layer {number} attends within chunks of {chunk} tokens, which analyses do not know: give documents "
                              f"of up to {chunk} tokens, or heads of other layers")
        if layer is None:
            layer = self._layers[number] = _Layer(module, q, k, options)
        tokens = q.shape[2]
        for b in range(q.shape[0]):
            document = self._first + b
            if self._keep != "moments":
                for side, x in (("q", q), ("k", k)):
                    drawn_as = "q" if self._same else side
                    kept = draw_tokens("uniform", self._bucket_size, self._rate, 0, tokens, self._seed, document, number, drawn_as)
                    at = torch.from_numpy(np.array(kept, dtype=np.int64)).to(x.device)
                    rows = x[b][self._chosen(number, side, layer)].index_select(1, at).transpose(0, 1)
                    layer.kept[side].append((rows.contiguous().cpu(), kept, document))
            if self._keep != "samples":
                position = torch.arange(tokens, dtype=torch.int32)
                more = accumulate(q[b].transpose(0, 1).cpu(), k[b].transpose(0, 1).cpu(), position, buckets=self._bucket_size,
                                  context_length=self._max_length)
                before = self.moments.get(number)
                self.moments[number] = more if before is None else before.merge(more)

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
        return list(self._tokens)

    def _manifest(self) -> dict[str, typing.Any]:
        whole: typing.Any = typing.cast(typing.Any, self._model).config
        config = whole.get_text_config() if hasattr(whole, "get_text_config") else whole
        first = self._layers[self.layers[0]]
        length = self._max_length or max(self._tokens)
        manifest: dict[str, typing.Any] = {
            "format": "qkgeom-capture", "version": 1, "rope_stage": "post", "seed": self._seed,
            "written_by": f"qkgeom {__version__} (Python)",
            "model": {"name": self._name or pathlib.PurePath(whole.name_or_path).name or whole.model_type, "model_type": whole.model_type,
                      "head_dim": first.head_dim, "n_layers": config.num_hidden_layers, "n_query_heads": first.heads,
                      "n_key_heads": first.key_heads},
            "context_length": length, "bucket": {"kind": "uniform", "size": self._bucket_size},
            "rate": min(1.0, self._rate / self._bucket_size),
            "compute_dtype": _short_name(typing.cast(typing.Any, self._model).dtype),
            "examples": [{"index": i, "id": str(i), "tokens": t} for i, t in enumerate(self._tokens)],
            "layers": [{"layer": n, "rope": rotates(config, n), "window": x.window,
                        "query_heads": self._chosen(n, "q", x), "key_heads": self._chosen(n, "k", x)}
                       for n, x in sorted(self._layers.items())],
        }
        rope = rope_of(self._model, config, first.module, length)
        if rope is not None:
            manifest["rope"] = rope
        manifest |= scaling_of(self._model, config, first.module, length)
        for layer in manifest["layers"]:
            own = own_rope_of(self._model, config, self._layers[layer["layer"]].module, length)
            if own is not None:
                layer["rope_parameters"] = own
        plain = getattr(first.module, "qk_nope_head_dim", None)
        if plain is not None:  # latent attention
            manifest["head_parts"] = {"nope": [0, plain], "rope": [plain, first.head_dim]}
        if self._same:
            manifest["same_positions"] = True
        # As qkgeom capture: named where the model has a scale of its own, even if that is 1/sqrt(head_dim).
        scale = first.head_dim ** -0.5 if first.scale is None else first.scale
        if any(getattr(config, n, None) is not None for n in ("query_pre_attn_scalar", "attention_multiplier")) or not \
                np.isclose(scale, first.head_dim ** -0.5, rtol=1e-12, atol=0):
            manifest["score_scale"] = scale
        if first.softcap is not None:
            manifest["score_softcap"] = first.softcap
        sinks = {str(n): x.sinks for n, x in self._layers.items() if x.sinks is not None}
        if sinks:
            manifest["sinks"] = sinks
        return manifest

    def write(self, folder: Path) -> pathlib.Path:
        """Writes the rows as a capture (docs/formats.md), which every program reads. Raises ValueError naming the file."""
        if self._keep == "moments" or not self._layers:
            raise ValueError("nothing to write: " + ("no call of the model was captured" if not self._layers else
                                                     "keep='moments' keeps no rows"))
        arrays = []
        for number, layer in sorted(self._layers.items()):
            one: list[typing.Any] = [number]
            for side in ("q", "k"):
                rows, positions, documents = zip(*layer.kept[side])
                one += [torch.cat(rows), np.concatenate(positions).astype(np.int32),
                        np.repeat(np.array(documents, dtype=np.int32), [len(p) for p in positions])]
            arrays.append(tuple(one))
        _qkgeom.write_capture(os.fspath(folder), json.dumps(self._manifest()), arrays)
        return pathlib.Path(folder)

    def open(self, **options: typing.Any) -> Capture:
        """The rows as `qkgeom.open` gives them, analysed; options are those of `qkgeom.open`."""
        with tempfile.TemporaryDirectory() as folder:
            found = open(self.write(pathlib.Path(folder) / "capture"), **options)
            found.report()
            return found


__all__ = ["Unsupported", "capture"]
