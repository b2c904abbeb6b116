# SPDX-License-Identifier: MIT
"""A NumPy head whose answers are known: rows mean + drift (t - L/2) + noise, with a drift along one direction."""
import numpy as np

import qkgeom

rng = np.random.default_rng(0)
n, d, length = 4000, 32, 8192
position = np.sort(rng.integers(0, length, n)).astype(np.int32)
document = (np.arange(n) % 16).astype(np.int32)
axis = np.ones(d) / np.sqrt(d)
slope_q, slope_k, mean_q = 2e-4, 4e-4, 1.5


def rows(mean, slope):
    return rng.normal(size=(n, d)) + np.outer(mean + slope * (position - length / 2), axis)


report = qkgeom.analyse(rows(mean_q, slope_q), rows(0, slope_k), position, document, context_length=length)
plane, ap = report[0].rotation, report.summary["joint"]
print(f"cosine of the drift axis and the planted one: {abs(plane.drift_axis @ axis):.4f} (1)")
print(f"bias strength: {plane.bias.strength:.2e} per token ({mean_q * slope_k:.2e})")
print(f"plasticity: {ap.overall.value:.3f} +- {ap.overall.error:.3f}, first fifth less last {ap.drop.value:.3f}")
assert abs(plane.drift_axis @ axis) > 0.99
assert abs(plane.bias.strength / (mean_q * slope_k) - 1) < 0.05
