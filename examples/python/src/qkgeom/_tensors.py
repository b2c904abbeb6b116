# SPDX-License-Identifier: MIT
"""Captures of queries and keys that other tools hold or write."""
from __future__ import annotations

import json
import pathlib
import re
import shutil
import tempfile
import typing

import numpy as np

from . import _qkgeom
from ._captures import Capture, Options, Path, open_capture
from ._version import __version__

if typing.TYPE_CHECKING:
    from typing_extensions import Unpack

Array = np.ndarray[typing.Any, np.dtype[typing.Any]]
Side = typing.Tuple[typing.Any, Array, Array]  # rows (n, heads, d), positions, documents


def _side(x: typing.Any, layout: str, name: str) -> Side:
    """The rows of x, whose dimensions the letters of layout name; those of a document one after another from position 0."""
    x = x.detach().cpu() if hasattr(x, "detach") else np.asarray(x)
    if len(x.shape) != len(layout):
        raise ValueError(f"{name} has shape {tuple(x.shape)}, but layout {layout!r} names {len(layout)} dimensions")
    if "b" not in layout:
        x, layout = x[None], "b" + layout
    order = [layout.index(letter) for letter in "bthd"]
    x = x.permute(order) if hasattr(x, "permute") else x.transpose(order)
    documents, tokens = x.shape[:2]
    return x.reshape(-1, *x.shape[2:]), np.tile(np.arange(tokens), documents), np.repeat(np.arange(documents), tokens)


def _capture_of(layers: dict[int, tuple[Side, Side]], rope: bool, model: str, window: int | None, score_scale: float | None,
                options: Options) -> Capture:
    """The capture of these layers: (q, k) by number."""
    if not layers:
        raise ValueError("there is no layer to capture")
    (q, at, of), (k, key_at, key_of) = next(iter(layers.values()))
    lengths = [int(max(at[of == e].max(initial=-1), key_at[key_of == e].max(initial=-1))) + 1 for e in range(int(key_of.max()) + 1)]
    heads, key_heads = q.shape[1], k.shape[1]
    if heads % key_heads:
        raise ValueError(f"q has {heads} heads, which must be a multiple of the {key_heads} of k")
    manifest = {
        "format": "qkgeom-capture", "version": 1, "rope_stage": "post", "seed": 0, "written_by": f"qkgeom {__version__} (Python)",
        "model": {"name": model, "model_type": "unknown", "head_dim": q.shape[2], "n_layers": max(layers) + 1, "n_query_heads": heads,
                  "n_key_heads": key_heads},
        "context_length": max(lengths), "bucket": {"kind": "all", "size": 1}, "rate": 1.0,
        "examples": [{"index": i, "id": str(i), "tokens": n} for i, n in enumerate(lengths)],
        "layers": [{"layer": n, "rope": rope, "window": window, "query_heads": list(range(heads)), "key_heads": list(range(key_heads))}
                   for n in sorted(layers)],
    }
    if score_scale is not None:
        manifest["score_scale"] = score_scale
    arrays = [(n, *layers[n][0], *layers[n][1]) for n in sorted(layers)]
    folder = tempfile.mkdtemp()
    try:
        _qkgeom.write_capture(folder, json.dumps(manifest), arrays, {})
        return open_capture(folder, **options)._owning(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def from_tensors(q: typing.Any, k: typing.Any, *, layout: str = "bhtd", rope: bool = True, model: str = "tensors",
                 window: int | None = None, score_scale: float | None = None, **options: Unpack[Options]) -> Capture:
    """A capture of whole documents whose queries and keys you hold, e.g. of a batch (documents, heads, tokens, d).

    q, k: arrays of one layer (NumPy, PyTorch, JAX), or dictionaries of them by the layer's number, from after the rotary
    embedding. layout: what their dimensions are, b documents, h heads, t tokens, d coordinates; without b: one document.
    rope: False for layers without rotary embedding. window: tokens of a sliding window. score_scale: what the softmax
    multiplies q . k by; None: 1/sqrt(d). options: those of `open_capture`. Raises ValueError where shapes do not fit.
    """
    if sorted(layout) not in (sorted("bhtd"), sorted("htd")):
        raise ValueError(f"layout must hold h, t, d and b or not, each once, as in 'bhtd', not {layout!r}")
    q, k = (x if isinstance(x, dict) else {0: x} for x in (q, k))
    if q.keys() != k.keys():
        raise ValueError(f"q has layers {sorted(q)}, and k has {sorted(k)}")
    layers = {int(n): (_side(q[n], layout, "q"), _side(k[n], layout, "k")) for n in q}
    return _capture_of(layers, rope, model, window, score_scale, options)


def from_transformer_lens(cache: typing.Any, **options: Unpack[Options]) -> Capture:
    """A capture of what TransformerLens cached: `logits, cache = model.run_with_cache(tokens)`.

    cache: an ActivationCache, or a dictionary of tensors by hook name, with hook_rot_q and hook_rot_k (after the rotary
    embedding) of each layer, or hook_q and hook_k of models without one. Tokens must not be padded. options: those of
    `open_capture`. Raises ValueError where the cache lacks a layer's queries or keys.
    """
    names = {name: re.fullmatch(r"blocks\.(\d+)\.attn\.hook_(rot_)?([qk])", name) for name in cache.keys()}
    rope = any(m and m[2] for m in names.values())
    sides: dict[str, dict[int, typing.Any]] = {"q": {}, "k": {}}
    for name, m in names.items():
        if m and bool(m[2]) == rope:
            sides[m[3]][int(m[1])] = cache[name]
    if not sides["q"]:
        raise ValueError("cache holds no blocks.LAYER.attn.hook_q or hook_rot_q")
    layout = "bthd" if len(next(iter(sides["q"].values())).shape) == 4 else "thd"
    name = getattr(getattr(getattr(cache, "model", None), "cfg", None), "model_name", "TransformerLens")
    return from_tensors(sides["q"], sides["k"], layout=layout, rope=rope, model=name, **options)


def from_vllm_hook(path: Path, **options: Unpack[Options]) -> Capture:
    """A capture of what vLLM-Hook saved: qk.safetensors, with qk.json beside it (VLLM_HOOK_USE_SAFETENSORS=1).

    path: the file, or its folder. Each request is a document, whose queries are of all its tokens or of the last one, as they
    enter the attention. options: those of `open_capture`. Raises ValueError where files do not fit one another, e.g. where they
    hold one rank's share of the heads.
    """
    folder = pathlib.Path(path)
    folder = folder.parent if folder.is_file() else folder
    facts = json.loads((folder / "qk.json").read_text())
    tensors = _read_safetensors(folder / "qk.safetensors")
    config = facts["config"]
    heads, key_heads = config["num_attention_heads"], config["num_key_value_heads"]
    layers: dict[int, tuple[Side, Side]] = {}
    for entry in facts["layer_order"]:
        q, k = tensors[entry["key_q"]], tensors[entry["key_k"]]
        q = q[:, None] if q.ndim == 2 else q  # the last token's alone
        if q.shape[2] % heads or q.shape[2] // heads * key_heads != k.shape[2]:
            raise ValueError(f"{folder}: {entry['module_name']} has {q.shape[2]} and {k.shape[2]} numbers a token, which are no {heads} "
                             f"and {key_heads} heads of one size: one rank's share?")
        key_tokens = facts.get("k_seq_lens") or facts.get("seq_lens") or [k.shape[1]] * len(k)
        whole = entry.get("hookq_mode", facts.get("hookq_mode")) == "all_tokens"
        tokens = (facts.get("q_seq_lens") or key_tokens) if whole else [1] * len(q)

        def side(x: Array, of_heads: int, counts: list[int]) -> Side:
            """The rows of each document, which are its last ones."""
            rows = np.concatenate([x[i, :n] for i, n in enumerate(counts)])
            at = np.concatenate([np.arange(end - n, end) for n, end in zip(counts, key_tokens)])
            return rows.reshape(len(rows), of_heads, -1), at, np.repeat(np.arange(len(counts)), counts)

        layers[entry["layer_num"]] = (side(q, heads, tokens), side(k, key_heads, key_tokens))
    scale = config.get("attention_multiplier")
    own = config.get("head_dim")  # of hidden_size, which is not every model's head size
    d = next(iter(layers.values()))[0][0].shape[2] if layers else own
    return _capture_of(layers, True, folder.name, None, scale if own == d else None, options)


def _read_safetensors(path: pathlib.Path) -> dict[str, Array]:
    """The tensors of a file; bf16, which NumPy lacks, as f32."""
    data = np.memmap(path, np.uint8, "r")
    start = 8 + int(data[:8].view("<u8")[0])
    found: dict[str, Array] = {}
    for name, tensor in json.loads(bytes(data[8:start])).items():
        if name == "__metadata__":
            continue
        first, last = tensor["data_offsets"]
        if tensor["dtype"] not in ("BF16", "F16", "F32"):
            raise ValueError(f"{path}: tensor {name} has dtype {tensor['dtype']}, not BF16, F16 or F32")
        values = data[start + first:start + last].view({"BF16": "<u2", "F16": "<f2", "F32": "<f4"}[tensor["dtype"]])
        if tensor["dtype"] == "BF16":
            values = (values.astype("<u4") << 16).view("<f4")
        found[name] = values.reshape(tensor["shape"])
    return found
