# SPDX-License-Identifier: MIT
"""qkgeom: the geometry of attention heads from their queries and keys.

Tensors in, tables out: `analyse(q, k, positions)` for arrays, `open(capture)` for captures on disk, `capture(model)` and
`Monitor(model)` for what transformers runs. The numbers are those of the C++ library; docs/glossary.md defines the words.
"""
from __future__ import annotations

import importlib
import typing

from ._captures import Capture, open
from ._qkgeom import (
    AxisProjection, Error, Estimate, Heatmap, HeadReport, KeyPair, Moments, Note, Pca, PositionBias, Profile, ProfileBucket,
    ProfileSummary, QueryBucket, QueryModel, Report, Rotation, RowMoments, SideMoments, Table, accumulate, analyse, draw_tokens,
    fit_queries, pca, planar_rotation, plasticity_profile, set_threads, summarize,
)
from ._version import __version__

if typing.TYPE_CHECKING:
    from ._monitor import Monitor
    from ._plots import (
        plot_bias_histogram, plot_bias_in_sd_map, plot_bias_map, plot_heatmap, plot_loss, plot_plane, plot_plasticity_map,
        plot_profile, plot_qk_map, plot_qk_scatter, plot_softmax_distance, plot_softmax_entropy, plot_softmax_first,
    )
    from ._transformers import capture

__all__ = [
    "AxisProjection", "Capture", "Error", "Estimate", "Heatmap", "HeadReport", "KeyPair", "Moments", "Monitor", "Note", "Pca",
    "PositionBias", "Profile", "ProfileBucket", "ProfileSummary", "QueryBucket", "QueryModel", "Report", "Rotation",
    "RowMoments", "SideMoments", "Table", "__version__", "accumulate", "analyse", "capture", "draw_tokens", "fit_queries",
    "open", "pca", "planar_rotation", "plasticity_profile", "plot_bias_histogram", "plot_bias_in_sd_map", "plot_bias_map",
    "plot_heatmap", "plot_loss", "plot_plane", "plot_plasticity_map", "plot_profile", "plot_qk_map", "plot_qk_scatter",
    "plot_softmax_distance", "plot_softmax_entropy", "plot_softmax_first", "set_threads", "summarize",
]


def __getattr__(name: str) -> typing.Any:
    # torch is imported where a model is captured, the figures where they are drawn, neither with the package.
    module = {"capture": "_transformers", "Monitor": "_monitor"}.get(name, "_plots" if name.startswith("plot_") else "")
    if name not in __all__ or not module:
        raise AttributeError(f"module 'qkgeom' has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
