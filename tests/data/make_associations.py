# SPDX-License-Identifier: MIT
"""Writes associations.json: pairs of columns with SciPy's Pearson, Spearman and Kendall coefficients, their two-sided
p-values over all orders (counted here one by one) and percentile bootstrap intervals (SciPy's, many resamples); and
families with their decomposition. Run: python3 make_associations.py"""
import itertools
import json
import math
import pathlib

import numpy as np
from scipy import stats

rng = np.random.default_rng(7)
KINDS = {
    "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "kendall": lambda x, y: stats.kendalltau(x, y).statistic,
}


def exact_p(kind, x, y):
    """Share of the n! orders of y whose |coefficient| is at least the observed one."""
    ranked = {"pearson": lambda v: v, "spearman": stats.rankdata}
    if kind == "kendall":
        f = lambda y: stats.kendalltau(x, y).statistic
    else:
        a, b = ranked[kind](np.asarray(x)), ranked[kind](np.asarray(y))
        a = (a - a.mean()) / np.linalg.norm(a - a.mean())
        f = lambda b: a @ (b - b.mean()) / np.linalg.norm(b - b.mean())
        y = b
    seen, least = 0, abs(f(np.asarray(y))) - 1e-10
    for order in itertools.permutations(y):
        seen += abs(f(np.asarray(order))) >= least
    return seen / math.factorial(len(x))


def column_pair(name, x, y, exact, interval):
    out = {"name": name, "x": list(map(float, x)), "y": list(map(float, y))}
    for kind, f in KINDS.items():
        out[kind] = f(x, y)
        if exact:
            out[kind + "_p"] = exact_p(kind, x, y)
    if interval:
        for kind in ("pearson", "spearman"):
            b = stats.bootstrap((x, y), KINDS[kind], paired=True, vectorized=False, method="percentile",
                                n_resamples=20000, rng=np.random.default_rng(1)).confidence_interval
            out[kind + "_interval"] = [b.low, b.high]
    return out


x20 = rng.normal(size=20)
pairs = [
    column_pair("six, tied", [1, 2, 2, 4, 5, 5], [0.3, 0.1, 0.4, 0.4, 0.9, 0.2], True, False),
    column_pair("six", rng.normal(size=6), rng.normal(size=6), True, False),
    column_pair("falling", [1, 2, 3, 4, 5], [9, 7, 4, 2, -1], True, False),
    column_pair("twenty", x20, 0.6 * x20 + rng.normal(size=20), False, True),
]

names = ["a"] * 4 + ["b"] * 3 + ["c"]
x = np.concatenate([rng.normal(0, 0.3, 4), rng.normal(1, 0.3, 3), [2.0]])
y = 3 * np.array([0] * 4 + [1] * 3 + [2]) - 2.0 * x + rng.normal(0, 0.05, 8)
family = np.array(names)
within = np.concatenate([[x[family == f] - x[family == f].mean(), y[family == f] - y[family == f].mean()]
                         for f in "ab"], axis=1)
means = np.array([[v[family == f].mean() for f in "abc"] for v in (x, y)])
slope = lambda a, b: stats.linregress(a, b).slope
label = np.array([0] * 4 + [1] * 3 + [2])
in_order = lambda l: np.mean([(x[i] < x[j]) for i in range(8) for j in range(8) if l[i] < l[j]])
between = lambda l: sum((l == f).sum() * (x[l == f].mean() - x.mean()) ** 2 for f in range(3))
arrangements = [np.array(l) for l in set(itertools.permutations(label.tolist()))]
families = {
    "x": x.tolist(), "y": y.tolist(), "family": names,
    "pooled": [stats.pearsonr(x, y).statistic, slope(x, y)],
    "within": [stats.pearsonr(*within).statistic, slope(*within)],
    "between": [stats.pearsonr(*means).statistic, slope(*means)],
    "in_order": in_order(label), "arrangements": len(arrangements),
    "order_p": np.mean([in_order(l) >= in_order(label) - 1e-10 for l in arrangements]),
    "variance_p": np.mean([between(l) >= between(label) - 1e-10 for l in arrangements]),
    "variance": between(label) / ((x - x.mean()) ** 2).sum(),
}
line = stats.linregress(x20, pairs[3]["y"])
path = pathlib.Path(__file__).with_name("associations.json")
path.write_text(json.dumps({"pairs": pairs, "families": families, "line": [line.slope, line.intercept]}, indent=1) + "\n")
