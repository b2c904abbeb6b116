# SPDX-License-Identifier: MIT
"""calls_check.py GOLDEN FOLDER: numbers of the package beside tables that `heads` wrote to FOLDER/heads-NAME."""
import csv
import filecmp
import importlib.util
import pathlib
import pickle
import signal
import sys
import threading
import time

import numpy as np
import pyarrow as pa
from checks import refused

import qkgeom

golden, folder = map(pathlib.Path, sys.argv[1:])
assert qkgeom.__version__ == qkgeom._qkgeom.__version__


def from_pandas(table):
    frame = table.to_pandas()
    return {c: [None if x is None or x != x else x for x in frame[c].tolist()] for c in frame.columns}


def from_polars(table):
    return importlib.import_module("polars").DataFrame(table).to_dict(as_series=False)


def from_duckdb(table):
    found = importlib.import_module("duckdb").from_arrow(table)
    return dict(zip(found.columns, map(list, zip(*found.fetchall()))))


readers = {"pandas": from_pandas, "polars": from_polars, "duckdb": from_duckdb}
for name in [n for n in readers if importlib.util.find_spec(n) is None]:
    print(f"left out: {name} is not here")
    del readers[name]
nulls = 0
for name in ("short-bf16", "long-f32"):
    seen = []
    capture = qkgeom.open(golden / f"{name}.safetensors", progress=lambda done, total: seen.append((done, total)))
    report = capture.report(folder / f"package-{name}")
    assert seen and seen[-1][0] == seen[-1][1] == len(report)
    tables = sorted({p.name for p in (folder / f"package-{name}").iterdir()} - {"columns.csv"})
    assert len(tables) == 7
    for table in tables:
        assert filecmp.cmp(folder / f"package-{name}" / table, folder / f"heads-{name}" / table, False), (name, table)
    # The tables in memory hold the same values, through Arrow too.
    for table in ("heads", "qk", "rotated", "profile", "heatmap", "bins"):
        rows = list(csv.DictReader(open(folder / f"heads-{name}" / f"{table}.csv")))
        here = report.table(table)
        arrow = pa.table(here).to_pydict()
        assert here.columns == list(rows[0]) == list(arrow) and len(here) == len(rows)
        for reader, read in readers.items():
            columns = read(here)
            assert columns == here.to_dict() and list(columns) == here.columns, (reader, name, table)
        nulls += sum(x is None for c in here.columns for x in here[c])
        for column in here.columns:
            assert here[column] == arrow[column]
            for text, value in zip((r[column] for r in rows), here[column]):
                if value is None:
                    assert text == "", (table, column, text)
                elif isinstance(value, str):
                    assert text == value
                else:
                    assert float(text) == value, (table, column, text, value)
    head = report[0]
    assert report.head(head.layer, head.q_head).summaries[0].overall.value == capture.heads()["ap_overall"][0]
    cells = capture.heatmap(head.layer, head.q_head)
    map_ = head.profiles[0].heatmap
    assert cells.shape == (map_.width, map_.width) and np.nansum(map_.weight) > 0
    assert np.array_equal(cells[map_.weight > 0], [map_.mean(*c) for c in np.argwhere(map_.weight > 0)])
    assert "HeadReport(layer=" in repr(head)

assert nulls > 0, "no table tests a missing value"

# The steps give what analyse gives, and moments of two halves are those of the whole.
rng = np.random.default_rng(0)
n, d = 1500, 12
position = np.arange(n, dtype=np.int32)
document = np.repeat(np.arange(5, dtype=np.int32), n // 5)
q, k = rng.normal(size=(n, 4, d)), rng.normal(size=(n, 2, d))
q += 2e-3 * position[:, None, None]
reports = [qkgeom.analyse(q, k, position, document, buckets=256, covariance=("joint",), heatmap=h) for h in (False, True)]
report = reports[1]
moments = qkgeom.accumulate(q, k, position, document, buckets=256)
models = qkgeom.fit_queries(moments, "joint")
# A heatmap sums the pairs in another order: equal to the bit beside its like, to rounding beside the other.
without, with_map = (qkgeom.plasticity_profile(models, q, k, position, document, heatmap=h) for h in (False, True))
for profiles, found in ((without, reports[0]), (with_map, reports[1])):
    for h, head in enumerate(found):
        assert profiles[h].plasticity[1:] == head.profiles[0].plasticity[1:], (profiles[h].plasticity, head.profiles[0].plasticity)
        assert qkgeom.summarize(profiles[h], n).overall.value == head.summaries[0].overall.value
for a, b in zip(without, with_map):
    assert np.allclose(a.plasticity, b.plasticity, rtol=1e-13, atol=0, equal_nan=True)
for h, head in enumerate(report):
    assert np.array_equal(qkgeom.pca(moments)[h].r_q, head.pca.r_q)
    assert np.array_equal(qkgeom.planar_rotation(moments)[h].drift_axis, head.rotation.drift_axis)
components = qkgeom.pca(moments)[0].components
assert np.allclose(components @ components.T, np.eye(d))
halves = [qkgeom.accumulate(q[s], k[s], position[s], buckets=256, context_length=n) for s in (slice(0, 700), slice(700, n))]
merged = halves[0].merge(halves[1])
assert merged.q[0].total.count == n and np.allclose(merged.q[3].total.xx, moments.q[3].total.xx, rtol=1e-12)
assert pickle.loads(pickle.dumps(moments)) == moments and moments != merged
x = q[:, 0] - q[:, 0].mean(0)
assert np.allclose(moments.q[0].total.xx, x.T @ x)
view = moments.q[0].total.mean
del moments
assert np.allclose(view, q[:, 0].mean(0)), "views outlive what they came from"

# A weight of the caller's own: 1 for near pairs is what a profile over these alone gives.
few = slice(0, 300)
own = qkgeom.plasticity_profile(models[:1], q[few, 0], k[few, 0], position[few], pairs=lambda p: 1.0)
alone = qkgeom.plasticity_profile(models[:1], q[few, 0], k[few, 0], position[few])
assert np.allclose(own[0].plasticity[1], alone[0].plasticity[1], rtol=1e-6)
for wrong, kind in ((lambda p: 1 / 0, ZeroDivisionError), (lambda p: -1.0, ValueError), (lambda p: "near", TypeError)):
    refused(kind, "", lambda: qkgeom.plasticity_profile(models[:1], q[few, 0], k[few, 0], position[few], pairs=wrong))

assert qkgeom.analyse(q, k, position, covariance="joint")[0].profiles[0].covariance == "joint"  # one name, not its letters
assert qkgeom.open(golden / "short-bf16.safetensors", covariance="joint").report()[0].profiles[0].covariance == "joint"
for words, call in (
    ("covariance", lambda: qkgeom.analyse(q, k, position, covariance=["normal"])),
    ("context_length", lambda: qkgeom.analyse(q, k, position, context_length=0)),
    ("buckets", lambda: qkgeom.analyse(q, k, position, buckets=0)),
    ("pairs", lambda: qkgeom.analyse(q, k, position, pairs="some")),
    ("nowhere", lambda: qkgeom.open("nowhere")),
    ("threads", lambda: qkgeom.set_threads(-1)),
):
    refused(ValueError, words, call)

# Threads change nothing; other threads of Python run meanwhile; KeyboardInterrupt ends a call.
qkgeom.set_threads(1)
again = qkgeom.analyse(q, k, position, document, buckets=256, covariance=("joint",))
assert again.table("heads").to_dict() == report.table("heads").to_dict()
large_q, large_k = rng.normal(size=(3000, 64)), rng.normal(size=(3000, 64))
ticks = []
stop = threading.Event()


def tick():
    while not stop.wait(0.01):
        ticks.append(time.monotonic())


thread = threading.Thread(target=tick)
thread.start()
began = time.monotonic()
qkgeom.analyse(large_q, large_k, np.arange(3000), covariance=("diagonal", "joint"))
took = time.monotonic() - began
stop.set()
thread.join()
assert len(ticks) > 5 * took, f"{len(ticks)} ticks in {took:.2f} s: the GIL was held"
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, took / 4)
refused(KeyboardInterrupt, "", lambda: qkgeom.analyse(large_q, large_k, np.arange(3000), covariance=("diagonal", "joint")))
