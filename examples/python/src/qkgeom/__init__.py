# SPDX-License-Identifier: MIT
"""qkgeom: the geometry of attention heads from their queries and keys.

Tensors in, tables out: `analyse(q, k)` for arrays, `open_capture(path)` for captures on disk, `capture(model)` and
`Monitor(model)` for what transformers runs. The numbers are those of the C++ library; docs/glossary.md defines the words.
"""
from __future__ import annotations

import importlib
import typing

from . import _calls, _show  # noqa: F401: before the functions are imported
from ._captures import Bands, Capture, Grip, WhatIf, open as open, open_capture
from ._qkgeom import (
    AxisProjection, Error, Estimate, Heatmap, HeadReport, KeyPair, Moments, Note, Pca, PositionBias, Profile, ProfileSummary,
    QueryBucket, QueryModel, Report, Rotation, RowMoments, SideMoments, Table, accumulate, analyse, draw_tokens,
    fit_queries, pca, planar_rotation, plasticity_profile, set_threads, summarize,
)
from ._tensors import from_tensors, from_transformer_lens, from_vllm_hook
from ._version import __version__

if typing.TYPE_CHECKING:
    from ._monitor import Monitor as Monitor
    from ._plots import (
        plot_bias_histogram, plot_bias_in_sd_map, plot_bias_map, plot_heatmap, plot_loss, plot_plane, plot_plasticity_map,
        plot_profile, plot_qk_map, plot_qk_scatter, plot_softmax_distance, plot_softmax_entropy, plot_softmax_first,
    )
    from ._trainer import TrainerCallback as TrainerCallback
    from ._transformers import capture as capture

# `from qkgeom import *` leaves Python's own open as it is, and imports no torch.
__all__ = [
    "AxisProjection", "Bands", "Capture", "Error", "Estimate", "Grip", "HeadReport", "Heatmap", "KeyPair", "Moments", "Note", "Pca",
    "PositionBias", "Profile", "ProfileSummary", "QueryBucket", "QueryModel", "Report", "Rotation", "RowMoments", "SideMoments",
    "Table", "WhatIf", "__version__", "accumulate", "analyse", "draw_tokens", "fit_queries", "from_tensors", "from_transformer_lens",
    "from_vllm_hook", "open_capture", "pca", "planar_rotation", "plasticity_profile", "plot_bias_histogram", "plot_bias_in_sd_map",
    "plot_bias_map", "plot_heatmap", "plot_loss", "plot_plane", "plot_plasticity_map", "plot_profile", "plot_qk_map",
    "plot_qk_scatter", "plot_softmax_distance", "plot_softmax_entropy", "plot_softmax_first", "set_threads", "summarize",
]
# torch is imported where a model is captured, the figures where they are drawn, neither with the package.
_LATER = {"capture": "_transformers", "Monitor": "_monitor", "TrainerCallback": "_trainer"}
_LATER |= {name: "_plots" for name in __all__ if name.startswith("plot_")}


def __getattr__(name: str) -> typing.Any:
    if name not in _LATER:
        raise AttributeError(f"module 'qkgeom' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    except ModuleNotFoundError as why:
        if why.name not in ("torch", "transformers"):
            raise
        raise ImportError(f"qkgeom.{name} needs PyTorch and transformers: pip install torch 'transformers>=5'", name=name) from why


def __dir__() -> list[str]:
    return sorted({"open", *__all__, *_LATER})
