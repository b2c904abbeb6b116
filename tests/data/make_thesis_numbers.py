# SPDX-License-Identifier: MIT
"""Writes thesis-numbers.json: numbers of the thesis' published tables, computed with NumPy and SciPy alone, which
examples/thesis must reach. Run: python3 make_thesis_numbers.py"""
import csv
import itertools
import json
import math
import pathlib

import numpy as np
from scipy import stats

here = pathlib.Path(__file__).parent
data = here.parent.parent / "examples" / "thesis" / "data"


def table(name):
    return list(csv.DictReader(open(data / name, encoding="utf-8")))


def numbers(rows, column):
    return np.array([float(r[column].strip("*")) for r in rows])


expected = []


def expect(file, column, value, **where):
    expected.append({"file": file, "where": where, "column": column, "value": float(value)})


scored = table("table1_lbp_and_mechanistic.csv")
lbp = numbers(scored, "LBP Overall")
ranks = lambda x: stats.rankdata(x) - (len(x) + 1) / 2
for name, column in [("ap_overall", "plasticity"), ("ap_last20", "ap_last_20%"), ("ap_drop", "ap_drop")]:
    x = numbers(scored, column)
    expect("associations.csv", "estimate", stats.pearsonr(x, lbp).statistic, metric=name, kind="pearson")
    expect("associations.csv", "estimate", stats.spearmanr(x, lbp).statistic, metric=name, kind="spearman")
    expect("associations.csv", "estimate", stats.kendalltau(x, lbp).statistic, metric=name, kind="kendall")
    expect("associations.csv", "p", stats.kendalltau(x, lbp, method="exact").pvalue, metric=name, kind="kendall")
    a, b = ranks(x), ranks(lbp)
    orders = [abs(a @ np.array(o)) for o in itertools.permutations(b)]
    expect("associations.csv", "p", np.mean(np.array(orders) >= abs(a @ b) - 1e-9), metric=name, kind="spearman")
    left = [stats.pearsonr(np.delete(x, i), np.delete(lbp, i)).statistic for i in range(7)]
    expect("associations.csv", "leave_one_out_low", min(left), metric=name, kind="pearson")
    expect("associations.csv", "leave_one_out_high", max(left), metric=name, kind="pearson")

# Inside families: deviations from the family's means.
family = np.array([r["Model"][0] for r in scored])
x = numbers(scored, "plasticity")
within = [np.concatenate([v[family == f] - v[family == f].mean() for f in "mq"]) for v in (x, lbp)]
expect("families.csv", "pearson", stats.pearsonr(*within).statistic, x="ap_overall", y="lbp", part="within families")

# AP_drop tells 11 models' families apart: every way to deal the names.
models = [r for r in table("all_models_mechanistic.csv") if r["Model"] not in ("mistral-v0.2-7b", "llama3.1-8b")]
drop = numbers(models, "ap_drop")
label = np.array(["mql".index(r["Model"][0]) for r in models])


def in_order(l):
    later = l[:, None] < l[None, :]
    return ((drop[:, None] < drop[None, :]) + 0.5 * (drop[:, None] == drop[None, :]))[later].mean()


seen = []
for m in itertools.combinations(range(11), 3):
    rest = [i for i in range(11) if i not in m]
    for q in itertools.combinations(rest, 5):
        l = np.full(11, 2)
        l[list(m)], l[list(q)] = 0, 1
        seen.append(in_order(l))
expect("separation.csv", "in_order", in_order(label), metric="ap_drop", models="11")
expect("separation.csv", "order_p", np.mean(np.array(seen) >= in_order(label) - 1e-9), metric="ap_drop", models="11")

# Ministral 14B: its scores with its own profile, and what is left without the length.
length = table("table3_ministral3_14b_lbp_by_length.csv")[:5]
score, own = numbers(length, "LBP Score"), numbers(length, "Plasticity (matched bin)")
log = np.arange(5.0)
rest = [v - np.polyval(np.polyfit(log, v, 1), log) for v in (score, own)]
same = dict(scores_of="ministral3-14b", profile_of="ministral3-14b", positions="half")
expect("correspondence.csv", "pearson", stats.pearsonr(score, own).statistic, **same)
expect("correspondence.csv", "pearson_given_log_length", stats.pearsonr(*rest).statistic, **same)

# Two models of 13 have the largest rises from dip to peak: one deal in 78.
expect("hypotheses.csv", "p", 1 / math.comb(13, 2), hypothesis="H8",
       test="mean rise of these models minus that of the others")
checkpoints = table("table5_smollm3_trajectory.csv")
context = np.array([4096] * 6 + [32768] * 2 + [65536] * 2)
expect("hypotheses.csv", "estimate",
       stats.spearmanr(numbers(checkpoints, "bias_str") * context, numbers(checkpoints, "ap_drop")).statistic,
       hypothesis="H4", test="Spearman of AP_drop with bias per context, 10 checkpoints")
(here / "thesis-numbers.json").write_text(json.dumps(expected, indent=1) + "\n")
