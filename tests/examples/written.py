# SPDX-License-Identifier: MIT
"""What the Python in the tests of programs shares: `work`, the test's folder, is the first argument."""
import csv
import json
import math
import statistics
import sys

work = sys.argv[1]


def rows(path):
    """The rows of a CSV file of the test's folder, as dictionaries."""
    return list(csv.DictReader(open(f"{work}/{path}")))


def number(text):
    """A cell's number; NaN where it is empty."""
    return float(text or "nan")


def conditions_of(folder):
    """name -> changes, of a conditions.json."""
    return {c["name"]: c["changes"] for c in json.load(open(f"{work}/{folder}/conditions.json"))["conditions"]}


def means_by(entries):
    """name -> unit -> mean, of (name, unit, mean, weight)."""
    sums = {}
    for name, unit, mean, weight in entries:
        x = sums.setdefault(name, {}).setdefault(unit, [0, 0])
        x[0] += mean * weight
        x[1] += weight
    return {name: {unit: s / n for unit, (s, n) in units.items()} for name, units in sums.items()}


def losses(folder):
    """condition -> document -> mean loss, of an evaluation."""
    return means_by((r["condition"], r["document"], float(r["loss"]), float(r["tokens"])) for r in rows(f"{folder}/condition_loss.csv"))


def standard_error(x):
    return statistics.stdev(x) / math.sqrt(len(x))
