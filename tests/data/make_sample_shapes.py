# SPDX-License-Identifier: MIT
"""Writes sample-shapes.json: samples, and what NumPy and SciPy say of their shape (mean, deviation, skewness, kurtosis,
quartiles) and the bimodality coefficient made of them. Run: python3 make_sample_shapes.py"""
import json
import pathlib

import numpy as np
from scipy import stats

rng = np.random.default_rng(20)
samples = {
    "normal": rng.normal(0.5, 0.1, 37),
    "two_clusters": np.concatenate([rng.normal(0.9, 0.05, 14), rng.normal(0.25, 0.05, 11)]),
    "skewed": rng.exponential(0.2, 52),
    "four": np.array([0.1, 0.4, 0.45, 0.9]),
    "two_points": np.array([0.2] * 6 + [0.9] * 6),
}
out = []
for name, x in samples.items():
    n = len(x)
    s, k = stats.skew(x, bias=False), stats.kurtosis(x, bias=False)
    out.append({
        "name": name, "values": x.tolist(), "mean": x.mean(), "deviation": x.std(ddof=1), "skewness": s, "kurtosis": k,
        "bimodality": (s * s + 1) / (k + 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))),
        "quartiles": np.quantile(x, [0.25, 0.5, 0.75]).tolist(),
    })
path = pathlib.Path(__file__).with_name("sample-shapes.json")
path.write_text(json.dumps(out, indent=1) + "\n")
