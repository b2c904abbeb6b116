# SPDX-License-Identifier: MIT
"""calls_check.py GOLDEN FOLDER: numbers of the package beside tables that `heads` wrote to FOLDER/heads-NAME."""
import copy
import csv
import filecmp
import importlib.util
import inspect
import math
import pathlib
import pickle
import signal
import sys
import threading
import time
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pyarrow as pa
from checks import refused

import qkgeom

golden, folder = map(pathlib.Path, sys.argv[1:])
assert qkgeom.__version__ == qkgeom._qkgeom.__version__


def from_pandas(table):
    frame = table.to_pandas()
    return {c: [None if missing else x for x, missing in zip(frame[c].tolist(), frame[c].isna())] for c in frame.columns}


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
programs = ("diagonal", "joint", "empirical")
for name in ("short-bf16", "long-f32"):
    seen = []
    capture = qkgeom.open_capture(golden / f"{name}.safetensors", covariance=programs, progress=lambda done, total: seen.append((done, total)))
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
        lists = here.to_dict()
        nulls += sum(x is None for c in lists.values() for x in c)
        assert lists == arrow and list(here) == here.columns and "layer" in here and "nothing" not in here
        for column in here:
            array, values = here[column], [math.nan if x is None else x for x in lists[column]]
            assert array.shape == (len(here),) and np.array_equal(array, values, equal_nan=array.dtype.kind == "f"), column
            assert array.dtype.kind == {bool: "b", str: "U"}.get(type(values[0]), "f" if column == "window" else array.dtype.kind)
            for text, value in zip((r[column] for r in rows), lists[column]):
                if value is None:
                    assert text == "", (table, column, text)
                elif isinstance(value, str):
                    assert text == value
                else:
                    assert float(text) == value, (table, column, text, value)
    head = report[0]
    assert report.head(head.layer, q_head=head.q_head).summary["diagonal"].overall.value == capture.heads()["ap_overall"][0]
    cells = capture.heatmap(head.layer, head.q_head)
    map_ = head.profile["diagonal"].heatmap
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
models = qkgeom.fit_queries(moments)
# A heatmap sums the pairs in another order: equal to the bit beside its like, to rounding beside the other.
without, with_map = (qkgeom.plasticity_profile(models, q, k, position, document, heatmap=h) for h in (False, True))
for profiles, found in ((without, reports[0]), (with_map, reports[1])):
    for h, head in enumerate(found):
        assert np.array_equal(profiles[h].plasticity, head.profile["joint"].plasticity, equal_nan=True), h
        assert qkgeom.summarize(profiles[h], n).overall.value == head.summary["joint"].overall.value
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


def same(a, b):
    """Two results are equal in all fields, to the bit."""
    if hasattr(a, "_fields"):
        return type(a) is type(b) and all(same(getattr(a, n), getattr(b, n)) for n in a._fields)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[n], b[n]) for n in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(a, b, equal_nan=True) if isinstance(a, (float, np.ndarray)) else a == b


# Every result pickles: as it is, and where it goes on.
for found in (moments, merged.q[0], models, report, report[0].pca, capture.report(), capture.report()[0].profile["empirical"],
              qkgeom.pca(moments), qkgeom.planar_rotation(moments)):
    assert same(copy.deepcopy(found), found) and same(pickle.loads(pickle.dumps(found)), found), found
copied = pickle.loads(pickle.dumps((models, report, report.table("heads"), capture)))
assert copied[2].to_dict() == report.table("heads").to_dict() == copied[1].table("heads").to_dict()
assert same(qkgeom.plasticity_profile(copied[0], q, k, position, document), without)
assert same(copied[3].report(), capture.report()) and copied[3].layers == capture.layers
state = report.__getstate__()
for wrong, words in ((state[:-1], "damaged"), (state + b" ", "damaged"), (state.replace(qkgeom.__version__.encode(), b"0.0.0", 1), "0.0.0")):
    refused(ValueError, words, lambda: qkgeom.Report.__new__(qkgeom.Report).__setstate__(wrong))
x = q[:, 0] - q[:, 0].mean(0)
assert np.allclose(moments.q[0].total.xx, x.T @ x)
view = moments.q[0].total.mean
del moments
assert np.allclose(view, q[:, 0].mean(0)), "views outlive what they came from"

# A weight of the caller's own: 1 for near pairs is what a profile over these alone gives.
few = slice(0, 300)
own = qkgeom.plasticity_profile(models[:1], q[few, 0], k[few, 0], position[few], pairs=lambda p: 1.0)
alone = qkgeom.plasticity_profile(models[:1], q[few, 0], k[few, 0], position[few])
assert np.allclose(own[0].plasticity, alone[0].plasticity, rtol=1e-6, equal_nan=True)
for wrong, kind in ((lambda p: 1 / 0, ZeroDivisionError), (lambda p: -1.0, ValueError), (lambda p: "near", TypeError)):
    refused(kind, "", lambda: qkgeom.plasticity_profile(models[:1], q[few, 0], k[few, 0], position[few], pairs=wrong))

# The joint model alone, unless others are asked for: one name or several.
one = qkgeom.open_capture(golden / "short-bf16.safetensors").report()
assert list(one.summary) == list(one[0].summary) == list(one[0].profile) == ["joint"]
assert list(qkgeom.analyse(q, k, covariance="full").summary) == ["full"]
every = capture.report()
assert list(every[0].profile) == [*programs] and list(every[0].summary) == list(every.summary) == [*programs, "empirical_unbiased"]
means = next(csv.DictReader(open(folder / f"heads-{name}/model_report.csv")))
assert float(means["ap_drop"]) == every.summary["diagonal"].drop.value
for model, column in (("diagonal", "ap_overall"), ("empirical", "ap_empirical"), ("empirical_unbiased", "ap_empirical_unbiased")):
    assert math.isclose(every.summary[model].overall.value, every.table("heads")[column].mean(), rel_tol=1e-12), model
alone = qkgeom.analyse(q[:, 0], k[:, 0], position, document, buckets=256)
assert same(alone.summary, alone[0].summary) and alone.summary["joint"].overall.error > 0
# Buckets are a sixteenth of the context.
assert qkgeom.analyse(q, k).buckets == qkgeom.accumulate(q, k).buckets == list(range(0, n, 94)) + [n]
assert qkgeom.analyse(q, k, buckets=np.uint16(100)).buckets == qkgeom.analyse(q, k, buckets=np.arange(0, 1600, 100)).buckets
# The scale of scores is the softmax's.
scaled = [qkgeom.analyse(q, k, score_scale=s)[0].rotation for s in (None, 0.5)]
assert math.isclose(scaled[0].score_scale, d ** -0.5) and scaled[1].score_scale == 0.5
assert math.isclose(scaled[1].bias.context_logits, 0.5 * scaled[1].bias.context, rel_tol=1e-12)

# What a notebook shows: tables that are well formed, with a row per value and no more than 21.
for shown, rows in ((every, None), (every.table("heads"), len(every)), (every.table("qk"), 21), (every[0].profile["joint"], None), (capture, 5)):
    page = ElementTree.fromstring(f"<div>{shown._repr_html_()}</div>")
    assert page.findall("table/tbody/tr/td") and rows in (None, len(page.findall("table/tbody/tr"))), shown
assert f"{every.summary['joint'].overall.value:.4g} ± " in every._repr_html_() and " ± " in repr(every.summary["joint"])
assert every.table("heads")._ipython_key_completions_() == every.table("heads").columns

# Old names work, with a warning where they stand.
head = every[0]
for old, new in ((lambda: head.profiles[0], lambda: head.profile["diagonal"]), (lambda: head.summaries[1], lambda: head.summary["joint"]),
                 (lambda: head.empirical, lambda: head.profile["empirical"]),
                 (lambda: head.empirical_summary, lambda: head.summary["empirical"]),
                 (lambda: head.empirical_unbiased, lambda: head.summary["empirical_unbiased"]),
                 (lambda: [b.plasticity for b in head.profile["joint"].buckets][1:], lambda: list(head.profile["joint"].plasticity[1:])),
                 (lambda: every.table("qk")["head"], lambda: every.table("qk")["q_head"]),
                 (lambda: every.head(head.layer, head=head.q_head), lambda: every.head(head.layer, head.q_head))):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert same(old(), new())
    assert [(w.category, w.filename) for w in warned] == [(DeprecationWarning, __file__)], [str(w.message) for w in warned]
for words, call in (
    ("covariance", lambda: qkgeom.analyse(q, k, position, covariance=["normal"])),
    ("context_length", lambda: qkgeom.analyse(q, k, position, context_length=0)),
    ("buckets", lambda: qkgeom.analyse(q, k, position, buckets=0)),
    ("pairs", lambda: qkgeom.analyse(q, k, position, pairs="some")),
    (["nowhere", "qkgeom.capture(model)"], lambda: qkgeom.open_capture("nowhere")),
    ("threads", lambda: qkgeom.set_threads(-1)),
    ("score_scale", lambda: qkgeom.analyse(q, k, score_scale=0)),
    ("name must be heads", lambda: report.table("head")),
    (["q is a masked array", "filled"], lambda: qkgeom.analyse(np.ma.array(q, mask=q > 0), k, position)),
    (["follow one another", "ascontiguousarray"], lambda: qkgeom.analyse(np.asfortranarray(q), k, position)),
):
    refused(ValueError, words, call)
# A wrong call is told its argument, and what the documentation says of that.
for words, call in (
    (["missing", "'k'", "keys (n, d)"], lambda: qkgeom.analyse(q)),
    (["k must not be None", "keys (n, d)"], lambda: qkgeom.analyse(q, None)),
    (["'bucket'", "there is buckets"], lambda: qkgeom.analyse(q, k, position, bucket=3)),
    (["buckets must be int | Sequence[int] | None, not str", "width"], lambda: qkgeom.analyse(q, k, position, buckets="wide")),
    ("heatmap must be bool, not int", lambda: qkgeom.analyse(q, k, position, heatmap=1)),
    ("seed=-1", lambda: qkgeom.analyse(q, k, position, seed=-1)),
    ("too many positional", lambda: qkgeom.pca(merged, 1)),
    ("moments must be Moments, not ndarray", lambda: qkgeom.pca(q)),
    (["models must be Sequence[QueryModel], not Moments", "fit_queries"], lambda: qkgeom.plasticity_profile(merged, q, k, position)),
    ("index must be int | slice, not str", lambda: report["a"]),
    ("q_head must be int, not str", lambda: report.head(0, "1")),
    ("column must be str, not int", lambda: report.table("heads")[0]),
):
    refused(TypeError, words, call)
assert list(inspect.signature(qkgeom.analyse).parameters)[:5] == ["q", "k", "positions", "documents", "buckets"]
assert inspect.signature(qkgeom.Report.head).parameters["q_head"].annotation is int and "PCA" in qkgeom.analyse.__doc__
assert len(report[0:2]) == 2 and [h.q_head for h in report] == [h.q_head for h in report[:]] == [0, 1, 2, 3]
names = {}
exec("from qkgeom import *", names)
assert "open" not in names and {"open_capture", "analyse"} <= set(names) and "plot_profile" in names and "torch" not in sys.modules
assert qkgeom.open is qkgeom.open_capture and {"open", "capture", "Monitor", "plot_profile", "analyse"} <= set(dir(qkgeom))
if importlib.util.find_spec("torch") is None:
    refused(ImportError, ["qkgeom.capture needs", "pip install"], lambda: qkgeom.capture)


def noted(words, call):
    """The report has a note with the words, and Python warns of it where it is called."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        notes = call().notes
    assert sum(words in n.text for n in notes) == 1 and [str(w.message) for w in warned] == [n.text for n in notes], (notes, warned)
    assert warned[0].filename == __file__


few = slice(0, 300)
noted("plasticity is NaN", lambda: qkgeom.analyse(q[few], k[few], position[few], buckets=300))
noted("stands twice", lambda: qkgeom.analyse(q, k, position % 300, buckets=50))
noted("plasticity is NaN", lambda: qkgeom.open_capture(golden / "long-f32.safetensors", buckets=[0, 100_000]).report())
noted("1200 of 1500 queries stand past", lambda: qkgeom.analyse(q, k, position, buckets=50, context_length=300))

# Columns have the same types, whatever their values.
warnings.simplefilter("ignore")
tables = [qkgeom.analyse(q, k, position, buckets=b, window=w).table(name) for name in ("heads", "profile")
          for b, w in ((256, None), (256, 60), ([0, n], None))]
for a in (tables[:3], tables[3:]):
    schemas = [pa.table(t).schema for t in a]
    assert schemas[0] == schemas[1] == schemas[2] and pa.concat_tables(map(pa.table, a)).num_rows == sum(map(len, a))
    if "pandas" in readers:
        frames = [t.to_pandas().dtypes for t in a]
        assert frames[0].equals(frames[1]) and frames[0].equals(frames[2])
assert pa.table(tables[0]).schema.field("window").type == pa.int64() and pa.table(tables[2])["ap_overall"].null_count == 4

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
# Within one primitive too, which would take half a minute; and it is the time since the interrupt that counts.
large_q, large_k = (rng.normal(size=(12000, 4, 64)).astype("f4") for _ in range(2))
signal.setitimer(signal.ITIMER_REAL, 0.8)
began = time.monotonic()
refused(KeyboardInterrupt, "", lambda: qkgeom.analyse(large_q, large_k, np.arange(12000)))
assert time.monotonic() - began < 1.8, time.monotonic() - began
