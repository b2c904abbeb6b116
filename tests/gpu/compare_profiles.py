#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the profiles that `qkgeom-capture --analyse` wrote to two folders: the same lines with the same numbers of pairs
and queries, and plasticity that differs by at most a bound.

Usage: compare_profiles.py FOLDER FOLDER [BOUND]
Prints the largest difference. Exit status 1 if it is above BOUND [1e-4], or other lines are there.
"""
import csv
import sys

SAME = ("document", "layer", "q_head", "q_bucket", "start", "end", "pairs", "queries")


def read(folder):
    with open(folder + "/document_profile.csv", newline="") as f:
        return [([line[c] for c in SAME], line["plasticity"]) for line in csv.DictReader(f)]


def main(a, b, bound="1e-4"):
    one, other = read(a), read(b)
    if not one or [key for key, _ in one] != [key for key, _ in other] or [p == "" for _, p in one] != [p == "" for _, p in other]:
        sys.exit(f"{a} and {b} have not the same profiles")
    worst = max((abs(float(p) - float(q)) for (_, p), (_, q) in zip(one, other) if p), default=float("inf"))
    print(f"{len(one)} buckets of queries, plasticity differs by at most {worst:.2g}")
    sys.exit(0 if worst <= float(bound) else 1)


main(*sys.argv[1:])
