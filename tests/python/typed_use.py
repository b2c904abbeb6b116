# SPDX-License-Identifier: MIT
# pyright: standard, reportUnnecessaryTypeIgnoreComment=true
"""A user's script that mypy and pyright must understand, and two lines that they must refuse (an ignored error that does not occur
is an error); not run."""
from __future__ import annotations

import typing

import numpy as np

import qkgeom

q, k = np.zeros((8, 2, 4)), np.zeros((8, 2, 4))
report = qkgeom.analyse(q, k, covariance=["joint", "empirical"], score_scale=0.5)
lists: qkgeom.Report = qkgeom.analyse([[0.0, 1.0]], [[0.0, 1.0]], [0], buckets=range(0, 8, 2), seed=3)
overall: float = report.summary["joint"].overall.value
of_head: dict[str, qkgeom.ProfileSummary] = report[0].summary
curve: float = report[0].profile["joint"].plasticity.max()
classes: list[str] = [head.pca.head_class for head in report]
pair: list[qkgeom.HeadReport] = report[0:2]
axis: np.ndarray[typing.Any, np.dtype[np.float64]] = report[0].rotation.drift_axis
table: qkgeom.Table = report.table("heads")
largest: float = table["ap_overall"].max()
names: list[str] = [name for name in table if name in table.columns]
values: dict[str, list[typing.Any]] = table.to_dict()
moments: qkgeom.Moments = qkgeom.accumulate(q, k).merge(qkgeom.accumulate(q, k))
models: list[qkgeom.QueryModel] = qkgeom.fit_queries(moments, covariance="full")
qkgeom.plasticity_profile(models, q, k, pairs=lambda p: 1.0 / (1 + p.distance))
capture: qkgeom.Capture = qkgeom.open_capture(["capture"], buckets=512, heads=[(0, 1)], progress=True)
cells: float = capture.heatmap(0, q_head=1).mean()
qkgeom.plot_profile(capture).savefig("profile.pdf")
qkgeom.plot_plane(capture, layer=0, q_head=1)
report[0].nothing  # type: ignore
qkgeom.fit_queries(report)  # type: ignore
