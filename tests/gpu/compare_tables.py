#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares tables that a program wrote to two folders, once on the CPU and once on a GPU: the same lines with the same numbers
of pairs and queries, and values that differ by at most a bound, which is relative where they are above 1.

Usage: compare_tables.py FOLDER FOLDER TABLE...     profile.csv, heatmap.csv, qk.csv, rotated.csv, softmax.csv,
                                                    softmax_distance.csv of `heads`; condition_loss.csv,
                                                    condition_probes.csv of `qkgeom evaluate`
Prints the largest differences. Exit status 1 if one is above its bound, or other lines are there.
"""
import csv
import os
import sys

SOFTMAX = ("scope", "group", "layer", "q_head", "q_bucket", "start", "end")
PROFILE = ("layer", "q_head", "q_bucket", "start", "end", "pairs", "queries")
# Table: columns that say which line it is, columns that are compared (None: all others), bound. A score of an observed
# query that is rounded the other way moves a small bucket by more than f32 arithmetic does.
TABLES = {
    "profile.csv": ((*PROFILE, "covariance"), ("plasticity",),
                    lambda line: 1e-4 if line["covariance"] == "empirical" else 1e-5),
    "heatmap.csv": (("layer", "q_head", "key_distance", "query_distance", "pairs"), ("plasticity",), lambda line: 1e-5),
    "softmax.csv": ((*SOFTMAX, "queries"), None, lambda line: 1e-4),
    "softmax_distance.csv": ((*SOFTMAX, "distance_start", "distance_end"), None, lambda line: 1e-4),
    "condition_loss.csv": (("condition", "document", "start", "end", "tokens"), ("loss",), lambda line: 1e-4),
    "condition_probes.csv": (("condition", "probe", "distance", "trial", "asked"), ("right",), lambda line: 0),
    "qk.csv": (("layer", "q_head", "pc"), None, lambda line: 1e-6),
    "rotated.csv": (("layer", "q_head", "k_head"), None, lambda line: 1e-6),
}


def read(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def compare(a, b, table):
    """Whether the tables agree, and a sentence about them."""
    same, columns, bound_of = TABLES[table]
    missing = [folder for folder in (a, b) if not os.path.exists(f"{folder}/{table}")]
    if missing:
        return False, f"not in {' nor in '.join(missing)}"
    one, other = read(f"{a}/{table}"), read(f"{b}/{table}")
    if not one or [[line[c] for c in same] for line in one] != [[line[c] for c in same] for line in other]:
        return False, "not the same lines"
    worst, where, right = 0.0, "", True
    for x, y in zip(one, other):
        for c in columns or [c for c in x if c not in same]:
            if (x[c] == "") != (y[c] == ""):
                return False, f"{c} is there in one alone, in the line of {' '.join(x[s] for s in same)}"
            if x[c] == "":
                continue
            off = abs(float(x[c]) - float(y[c])) / max(1.0, abs(float(y[c])))
            right = right and off <= bound_of(x)
            if not off <= worst:
                worst, where = off, f", {c} of {' '.join(x[s] for s in same)}"
    return right, f"{len(one)} lines, differ by at most {worst:.2g}{where}"


def main(a, b, *tables):
    status = 0
    for table in tables:
        right, text = compare(a, b, table)
        print(f"{table}: {text}" + ("" if right else "  FAILED"))
        status = status or (0 if right else 1)
    sys.exit(status)


main(*sys.argv[1:])
