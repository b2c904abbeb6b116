# SPDX-License-Identifier: MIT
"""Uses that mypy must understand, and two that it must refuse (an ignored error that does not occur is an error); not run."""
import numpy as np

import qkgeom

report: qkgeom.Report = qkgeom.analyse(np.zeros((8, 4)), np.zeros((8, 4)), np.arange(8), covariance=["joint"])
overall: float = report[0].summaries[0].overall.value
classes: "list[str]" = [head.pca.head_class for head in report]
pair: "list[qkgeom.HeadReport]" = report[0:2]
axis: "np.ndarray" = report[0].rotation.drift_axis
moments: qkgeom.Moments = qkgeom.accumulate(np.zeros((8, 4)), np.zeros((8, 4)), np.arange(8))
models: "list[qkgeom.QueryModel]" = qkgeom.fit_queries(moments, covariance="joint")
columns: "list[str]" = qkgeom.open("capture").heads().columns
qkgeom.plasticity_profile(models, np.zeros((8, 4)), np.zeros((8, 4)), np.arange(8), pairs=lambda p: 1.0)
cells: "list[object]" = qkgeom.open("capture").heads()["ap_overall"]
report[0].nothing  # type: ignore[attr-defined]
qkgeom.fit_queries(report)  # type: ignore[arg-type]
