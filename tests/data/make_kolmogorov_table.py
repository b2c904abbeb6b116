#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes kolmogorov.csv: n, distance, p = P(D_n >= distance) of the two-sided Kolmogorov-Smirnov statistic, as
scipy.stats.kstwo gives it. Needs scipy."""
import csv
import pathlib

from scipy.stats import kstwo

SIZES = (2, 3, 5, 8, 12, 20, 40, 70, 100, 128, 129, 150, 250, 500, 1143, 2000, 5000, 20000, 60000)
TAILS = (0.9999, 0.99, 0.9, 0.7, 0.5, 0.3, 0.2, 0.12, 0.105, 0.1, 0.095, 0.05, 0.01, 1e-3, 1e-6, 1e-12, 1e-50)

with open(pathlib.Path(__file__).with_name("kolmogorov.csv"), "w", newline="") as f:
    out = csv.writer(f, lineterminator="\n")
    out.writerow(["n", "distance", "p"])
    for n in SIZES:
        for tail in TAILS:
            d = float(f"{kstwo.isf(tail, n):.8g}")
            if 0.5 / n < d < 1 and kstwo.sf(d, n) > 0:
                out.writerow([n, d, float(kstwo.sf(d, n))])
