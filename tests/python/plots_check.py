# SPDX-License-Identifier: MIT
"""plots_check.py SOURCE GOLDEN FOLDER: figures and page of the package beside what `heads` wrote to FOLDER/heads-NAME."""
import csv
import importlib.util
import itertools
import math
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
from checks import refused

import qkgeom
from qkgeom import _plots, _qkgeom

source, golden, folder = map(pathlib.Path, sys.argv[1:])
capture = qkgeom.open_capture(golden / "long-f32.safetensors", covariance=["diagonal", "joint", "empirical"])
report = capture.report()
theirs = folder / "heads-long-f32"


def words_of(svg):
    return ["".join(e.itertext()) for e in ElementTree.parse(svg).iter() if e.tag.endswith("}text")]


# The words are those of the programs' figures, the values those of their tables.
heads = list(csv.DictReader(open(theirs / "heads.csv")))
drawn = [(n, _qkgeom.figure(report, n)) for n in ("qk_scatter", "qk_map", "bias_histogram", "bias_map", "profile", "heatmap",
                                                   "plasticity_map")]
drawn += [(f"plane_layer{layer}_head{head}", _qkgeom.plane(capture._set, report, layer, head))
          for layer, head in _qkgeom.drawn_heads(report)]
assert sorted(n for n, _ in drawn) == sorted(f.stem for f in theirs.glob("*.svg"))
for name, data in drawn:
    shown = words_of(theirs / f"{name}.svg")
    assert all(data[w] in shown for w in ("title", "subtitle", "x_label", "y_label")), (name, data["title"], shown[:9])
figures = dict(drawn)
# The figures of softmax and loss, from a capture that holds them.
measured = qkgeom.open_capture(folder / "statistics", covariance="diagonal")
statistics = _qkgeom.statistics_figures(measured._set, measured.report())
assert [n for n, _ in statistics] == ["softmax_first", "softmax_entropy", "softmax_distance", "loss"]
for name, data in statistics:
    shown = words_of(folder / f"heads-statistics/{name}.svg")
    assert all(data[w] in shown for w in ("title", "subtitle", "x_label", "y_label")), (name, data["title"], shown[:9])
cells = dict(zip(((f, h) for f in figures["plasticity_map"]["rows"] for h in figures["plasticity_map"]["columns"]),
                 figures["plasticity_map"]["panels"][0][1]))
for h in heads:
    row = h["layer"] if h["rope"] == "1" else "NoPE " + h["layer"]
    assert cells[row, h["q_head"]] == float(h["ap_overall"])
assert sum(map(math.isfinite, cells.values())) == len(heads)
refused(ValueError, "no figure has the name nothing", lambda: _qkgeom.figure(report, "nothing"))

# A package that was built apart from the programs' sources says so.
made = _qkgeom.figure
del _qkgeom.figure
for call in (lambda: qkgeom.plot_profile(report), lambda: qkgeom.plot_plane(capture, 0, 0), lambda: qkgeom.plot_loss(capture),
             lambda: capture.report(folder / "page/report.html")):
    refused(RuntimeError, "apart from qkgeom's sources", call)
_qkgeom.figure = made

if importlib.util.find_spec("matplotlib") is None:
    refused(ImportError, "pip install matplotlib", lambda: qkgeom.plot_profile(report))
    print("left out: drawing, matplotlib is not here")
    sys.exit(0)

# matplotlib draws a mark per value.
figure = qkgeom.plot_profile(report)
lines = [tuple(line.get_ydata()) for line in figure.axes[0].lines]
for head in report:
    assert any(np.array_equal(line, head.profile["diagonal"].plasticity, equal_nan=True) for line in lines)
points = qkgeom.plot_qk_scatter(capture).axes[0].collections
assert sorted(tuple(p) for c in points for p in c.get_offsets()) == sorted((h.pca.r_q[0], h.pca.r_k[0]) for h in report)
mesh = qkgeom.plot_plasticity_map(report).axes[0].collections[0].get_array()
assert mesh.count() == len(heads) and math.isclose(mesh.sum(), sum(float(h["ap_overall"]) for h in heads))
bars = qkgeom.plot_bias_histogram(report).axes[0].patches
assert sum(bar.get_height() for bar in bars) == len(heads)
mesh = qkgeom.plot_heatmap(report).axes[0].collections[0].get_array()
assert np.array_equal(mesh.filled(np.nan).ravel(), np.reshape(figures["heatmap"]["values"], mesh.shape).T.ravel(), equal_nan=True)
layer, head = _qkgeom.drawn_heads(report)[0]
clouds = qkgeom.plot_plane(capture, layer, head).axes[0].collections
assert len(clouds[0].get_offsets()) == len(figures[f"plane_layer{layer}_head{head}"]["clouds"][0]["x"]) > 100
softmax, loss = (list(csv.DictReader(open(folder / f"heads-statistics/{t}.csv"))) for t in ("softmax", "loss"))


def curves(figure):
    return [list(line.get_ydata()) for line in figure.axes[0].lines]


for draw, column in ((qkgeom.plot_softmax_first, "first_1"), (qkgeom.plot_softmax_entropy, "entropy")):
    drawn = curves(draw(measured))
    for of, rows in itertools.groupby(softmax, lambda r: [r[n] for n in ("scope", "group", "layer", "q_head")]):
        assert of[:2] == ["model", "all"] or [float(r[column]) for r in rows] in drawn, (of, column)  # RoPE and NoPE stand apart
assert [float(r["loss"]) for r in loss] in curves(qkgeom.plot_loss(measured))
masses = [y for y in curves(qkgeom.plot_softmax_distance(measured)) if len(y) == len(statistics[2][1]["steps"])]
assert any(math.isclose(sum(y), 1, rel_tol=1e-9) for y in masses), "a query's attention is 1 over all distances"
refused(ValueError, "head: layer 99", lambda: qkgeom.plot_plane(capture, 99, 0))
refused(ValueError, "--softmax", lambda: qkgeom.plot_softmax_first(capture))
refused(TypeError, "report must be", lambda: qkgeom.plot_profile("profile"))
for call in (lambda: qkgeom.plot_plane(report, 0, 0), lambda: qkgeom.plot_loss(report)):
    refused(TypeError, ["must be a Capture", "qkgeom.open_capture", "not Report"], call)
assert figure._repr_png_()[:4] == b"\x89PNG", "a notebook shows the figure without pyplot"
assert "matplotlib.pyplot" not in sys.modules, "drawing changes no global state"

# Curves and steps that this capture does not have, from data of the same form.
words = dict(title="t", subtitle="s", x_label="x", y_label="y")
many = [dict(name="g", colour="#0072b2", traces=[[i / 70, 0.5, 0.25] for i in range(1, 70)], mean=[], error=[], dashed=False)]
areas = _plots.draw(dict(words, kind="lines", x=[1, 2, 3], x_end=4, y_low=0.01, y_high=1, log_y=True, most_traces=60, groups=many))
assert len(areas.axes[0].collections) == 2 and not areas.axes[0].lines and areas.axes[0].get_yscale() == "log"
steps = _plots.draw(dict(words, kind="steps", steps=["0", "1-3"], y_low=0, y_high=math.nan, log_y=False,
                         lines=[dict(name="l", colour="#000000", y=[0.25, 0.75], error=[0.1, math.nan], dashed=True)]))
assert list(steps.axes[0].lines[0].get_ydata()) == [0.25, 0.75] and steps.axes[0].get_ylim()[0] == 0

# The page passes the check of the program's own, beside the program's tables and the package's figures.
page = folder / "page"
shutil.rmtree(page, ignore_errors=True)
assert capture.report(page / "report.html") is report
for table in ("heads.csv", "rotated.csv", "profile.csv"):
    assert (page / table).read_bytes() == (theirs / table).read_bytes(), table
for table in ("model_columns.csv", "notes.csv"):
    shutil.copy(theirs / table, page)
checked = subprocess.run([sys.executable, "-B", source / "tests/examples/report_check.py", page], capture_output=True, text=True)
assert checked.returncode == 0 and checked.stdout.startswith("Cannot be said: AP_drop is 0.076"), checked.stdout[:2000] + checked.stderr
assert "qkgeom.open_capture([" in (page / "report.html").read_text()
