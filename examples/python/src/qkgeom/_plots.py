# SPDX-License-Identifier: MIT
"""The figures of the programs, drawn by matplotlib: data and words are those that the programs hand to gnuplot.

A function takes a `Report`, or a `Capture`, which it analyses, and returns a `matplotlib.figure.Figure`:
`plot_profile(report).savefig("profile.pdf")`. docs/formats.md names the figures. matplotlib is imported here alone.
"""
from __future__ import annotations

import io
import textwrap
import typing

import numpy as np

from . import _qkgeom
from ._captures import Capture, require_programs
from ._qkgeom import Report
from ._renamed import q_head_was_head

if typing.TYPE_CHECKING:
    from matplotlib.figure import Figure

Data = typing.Dict[str, typing.Any]

_INK, _FAINT, _RULE, _AXIS, _NO_VALUE = "#262626", "#666666", "#e4e4e4", "#a6a6a6", "#e2e2e2"
_STYLE: dict[typing.Any, typing.Any] = {
    "font.size": 9, "text.color": _INK, "axes.labelcolor": _INK, "xtick.color": _INK, "ytick.color": _INK,
    "axes.edgecolor": _AXIS, "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "grid.color": _RULE, "legend.frameon": False, "svg.fonttype": "none", "svg.hashsalt": "qkgeom", "text.parse_math": False,
}


def _frame(f: Data, width: float, height: float) -> Figure:
    """A figure of that many inches with title and subtitle at its upper left; axes keep below them."""
    from ._figure import Figure

    lines = textwrap.wrap(f["subtitle"], int(width * 14.5))
    title = textwrap.wrap(f["title"], int(width * 10)) or [""]
    room = 0.16 + 0.25 * len(title) + 0.17 * len(lines)
    height += room - 0.5
    figure = Figure(figsize=(width, height), layout="constrained")
    layout: typing.Any = figure.get_layout_engine()
    layout.set(rect=(0.01, 0.01, 0.98, 1 - room / height - 0.01))
    figure.text(0.015, 1 - 0.08 / height, "\n".join(title), va="top", fontsize=13)
    figure.text(0.015, 1 - (0.11 + 0.25 * len(title)) / height, "\n".join(lines), va="top", fontsize=9, color=_FAINT)
    return figure


def _axes(f: Data, width: float, height: float) -> tuple[Figure, typing.Any]:
    """The frame and axes with a grid in it."""
    figure = _frame(f, width, height)
    axes = figure.add_subplot()
    axes.set(xlabel=f["x_label"], ylabel=f["y_label"])
    axes.grid(True)
    return figure, axes


def _legend(axes: typing.Any) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0)


def _bar(figure: Figure, of: typing.Any, **options: typing.Any) -> None:
    bar: typing.Any = figure.colorbar(of, **options)
    bar.outline.set_visible(False)
    bar.solids.set_rasterized(False)  # a page shows no images
    bar.solids.set_edgecolor("face")


def _token_axis(axis: typing.Any, end: float) -> None:
    ticks = _qkgeom.token_ticks(end)
    axis.set_ticks(ticks, [_qkgeom.token_label(t) for t in ticks])


def _scatter(f: Data) -> Figure:
    from matplotlib.patches import Rectangle

    figure, axes = _axes(f, 8, 5.8)
    limit = f["limit"]
    for left, bottom, right, top, colour in f["regions"]:
        axes.add_patch(Rectangle((left, bottom), right - left, top - bottom, color=colour, alpha=0.1, linewidth=0, zorder=0))
    for line in (axes.axvline, axes.axhline):
        for value in (sign * t for t in f["thresholds"] for sign in (-1, 1)):
            line(value, color=_FAINT, linewidth=0.8, dashes=(6, 4), zorder=1)
    for s in f["points"]:
        axes.scatter(s["x"], s["y"], s=26, c=s["colour"], marker=s["marker"], alpha=0.8, linewidths=0, label=s["name"] or None,
                     clip_on=False)
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit))
    _legend(axes)
    return figure


def _shown(y: typing.Sequence[float], log: bool) -> np.ndarray[typing.Any, np.dtype[np.float64]]:
    values = np.asarray(y, dtype=float)
    return np.where(values > 0, values, np.nan) if log else values


def _lines(f: Data) -> Figure:
    figure, axes = _axes(f, 9, 5)
    x, log = f["x"], f["log_y"]
    for g in f["groups"]:
        colour = g["colour"]
        traces = np.array([_shown(t, log) for t in g["traces"]])
        if len(traces) > f["most_traces"]:
            for share, opacity in ((0.05, 0.1), (0.25, 0.16)):  # nine tenths of the traces, and half of them
                low, high = np.nanquantile(traces, (share, 1 - share), axis=0)
                axes.fill_between(x, low, high, color=colour, alpha=opacity, linewidth=0)
        else:
            for t in traces:
                axes.plot(x, t, color=colour, alpha=0.42, linewidth=0.7, marker="o", markersize=1.2)
        if not g["mean"]:
            continue
        mean = _shown(g["mean"], log)
        if g["error"]:
            low, high = mean - g["error"], mean + np.asarray(g["error"])
            axes.fill_between(x, np.maximum(low, f["y_low"]) if log else low, high, color=colour, alpha=0.2, linewidth=0)
        if not g["dashed"]:
            axes.plot(x, mean, color="white", linewidth=4.5, zorder=3)
        look = (dict(linewidth=1.5, linestyle=(0, (4, 2)), markersize=3, fillstyle="none", zorder=6) if g["dashed"]
                else dict(linewidth=2.3, markersize=3.5, zorder=5))
        axes.plot(x, mean, color=colour, marker="o", label=g["name"] or None, **look)
    if log:
        axes.set_yscale("log")
    axes.set(xlim=(0, f["x_end"]), ylim=(f["y_low"], f["y_high"]))
    _token_axis(axes.xaxis, f["x_end"])
    _legend(axes)
    return figure


def _steps(f: Data) -> Figure:
    figure, axes = _axes(f, 9, 5)
    for i, s in enumerate(f["lines"]):
        x = np.arange(len(f["steps"])) + 0.03 * (i - 0.5 * (len(f["lines"]) - 1))
        error = np.asarray(s["error"], dtype=float) if s["error"] else None
        axes.errorbar(x, _shown(s["y"], f["log_y"]), error, color=s["colour"], marker="o", markersize=3.5, elinewidth=1.2,
                      fillstyle="none" if s["dashed"] else "full", linestyle=(0, (4, 2)) if s["dashed"] else "-",
                      linewidth=1.4 if s["dashed"] else 2, label=s["name"] or None)
    if f["log_y"]:
        axes.set_yscale("log")
    axes.set_xticks(range(len(f["steps"])), f["steps"], rotation=28, ha="right")
    for bound, value in (("bottom", f["y_low"]), ("top", f["y_high"])):
        if np.isfinite(value):
            axes.set_ylim(**{bound: value})
    _legend(axes)
    return figure


def _histogram(f: Data) -> Figure:
    from matplotlib.ticker import MaxNLocator

    figure, axes = _axes(f, 7.5, 4.6)
    axes.grid(False, axis="x")
    edges = np.asarray(f["edges"])
    base = np.zeros(len(edges) - 1)
    for g in f["groups"]:
        values = np.asarray(g["values"])
        count = np.histogram(values[np.isfinite(values)], edges)[0]
        axes.bar(edges[:-1], count, np.diff(edges), base, align="edge", color=g["colour"], edgecolor="white", linewidth=0.6,
                 label=g["name"] or None)
        base += count
    axes.axvline(0, color=_INK, linewidth=1)
    axes.set(xlim=(edges[0], edges[-1]), ylim=(0, max(1.0, 1.05 * base.max())))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    return figure


def _map(f: Data) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap

    rows, columns, panels = len(f["rows"]), len(f["columns"]), f["panels"]
    cell = min(0.55, 10 / (columns * len(panels)))
    figure = _frame(f, max(6.0, 1.8 + cell * columns * len(panels)), max(2.2, 1.4 + min(0.34, 7 / rows) * rows))
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    colours = LinearSegmentedColormap.from_list("scale", f["colours"])
    for axes, (title, values) in zip(all_axes, panels):
        cells = np.ma.masked_invalid(np.reshape(values, (rows, columns)))
        axes.pcolormesh(cells, cmap=colours, vmin=f["low"], vmax=f["high"], edgecolors="white", linewidth=0.6 if cell > 0.1 else 0)
        axes.patch.set_facecolor(_NO_VALUE)
        axes.set_title(title, loc="left", fontsize=9)
        axes.set_xlabel(f["x_label"])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_ylim(rows, 0)
        for set_ticks, names, most in ((axes.set_xticks, f["columns"], max(4, int(cell * columns * 4))),
                                       (axes.set_yticks, f["rows"], 40)):
            step = -(-len(names) // most)
            set_ticks(np.arange(0, len(names), step) + 0.5, names[::step])
        if cell >= 0.36 and rows <= 24:
            for (row, column), value in np.ndenumerate(cells.filled(np.nan)):
                if not np.isfinite(value):
                    continue
                share = (value - f["low"]) / (f["high"] - f["low"])
                light = abs(share - 0.5) > 0.28 if f["diverging"] else share < 0.5
                axes.text(column + 0.5, row + 0.5, f"{value:.{f['digits']}f}".replace("-0.00", "0.00"), ha="center", va="center",
                          fontsize=8, color="white" if light else _INK)
    all_axes[0].set_ylabel(f["y_label"])
    _bar(figure, all_axes[0].collections[0], ax=list(all_axes), label=f["scale_label"], aspect=15)
    return figure


def _heatmap(f: Data) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap

    figure, axes = _axes(f, 7, 5.4)
    width, end = f["width"], f["cell"] * f["width"]
    edges = f["cell"] * np.arange(width + 1)
    if width:
        cells = np.ma.masked_invalid(np.reshape(f["values"], (width, width)).T)
        colours = LinearSegmentedColormap.from_list("scale", f["colours"])
        mesh = axes.pcolormesh(edges, edges, cells, cmap=colours, vmin=f["low"], vmax=f["high"])
        _bar(figure, mesh, ax=axes, label=f["scale_label"])
    axes.set(xlim=(0, end or 1), ylim=(0, end or 1))
    _token_axis(axes.xaxis, end)
    _token_axis(axes.yaxis, end)
    return figure


def _plane(f: Data) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import FuncFormatter

    figure, axes = _axes(f, 8, 5.4)
    for line in (axes.axhline, axes.axvline):
        line(0, color=_AXIS, linewidth=0.8, zorder=1)
    for c in f["clouds"]:
        ramp = LinearSegmentedColormap.from_list(c["name"], c["ramp"])
        points = axes.scatter(c["x"], c["y"], s=5, c=c["position"], cmap=ramp, vmin=0, vmax=f["context_length"], marker=c["marker"],
                              linewidths=0, zorder=2)
        _bar(figure, points, ax=axes, label=c["name"] + ", position (tokens)", ticks=[0, f["context_length"]], aspect=30,
             format=FuncFormatter(lambda t, _: _qkgeom.token_label(t)))
        x, y = np.asarray(c["mean_x"]), np.asarray(c["mean_y"])
        there = np.isfinite(x) & np.isfinite(y)
        if there.any():
            x, y = x[there], y[there]
            axes.plot(x, y, color="white", linewidth=4, zorder=3)
            axes.plot(x, y, color=c["ramp"][1], linewidth=2, zorder=4)
            axes.scatter(x[-1:], y[-1:], s=90, c=c["ramp"][1], marker=c["marker"], edgecolors="white", linewidths=1.5, zorder=5)
    axes.margins(0.04)
    return figure


_DRAW = {"scatter": _scatter, "lines": _lines, "steps": _steps, "histogram": _histogram, "map": _map, "heatmap": _heatmap,
         "plane": _plane}


def draw(f: Data) -> Figure:
    """Draws the data of a figure."""
    try:
        import matplotlib
    except ImportError as e:
        raise ImportError("the figures are drawn by matplotlib, which is not here: pip install matplotlib") from e
    with matplotlib.rc_context(_STYLE):
        return _DRAW[f["kind"]](f)


def _rows(of: object, name: str) -> _qkgeom.CaptureSet:
    """The rows of a capture. Raises TypeError unless it is one."""
    if not isinstance(of, Capture):
        raise TypeError(f"plot_{name} draws what a capture holds: capture must be a Capture, of qkgeom.open_capture or cap.open(), not "
                        f"{type(of).__name__}")
    return of._set


def _report(of: Report | Capture) -> Report:
    require_programs()
    if isinstance(of, Capture):
        return of.report()
    if isinstance(of, Report):
        return of
    raise TypeError(f"report must be a Report or a Capture, not {type(of).__name__}")


class FigureOfHeads(typing.Protocol):
    def __call__(self, report: Report | Capture) -> Figure: ...


class FigureOfCapture(typing.Protocol):
    def __call__(self, capture: Capture) -> Figure: ...


def _named(name: str, words: str, function: typing.Any) -> typing.Any:
    function.__name__ = function.__qualname__ = f"plot_{name}"
    function.__doc__ = words
    return function


def _of_heads(name: str, words: str) -> FigureOfHeads:
    def plot(report: Report | Capture) -> Figure:
        analysed = _report(report)
        return draw(_qkgeom.figure(analysed, name))

    return typing.cast(FigureOfHeads, _named(name, words, plot))


def _of_capture(name: str, option: str, words: str) -> FigureOfCapture:
    def plot(capture: Capture) -> Figure:
        rows, report = _rows(capture, name), _report(capture)
        found = dict(_qkgeom.statistics_figures(rows, report))
        if name not in found:
            raise ValueError(f"this capture holds no {name}: qkgeom capture takes it with {option}")
        return draw(found[name])

    return typing.cast(FigureOfCapture, _named(name, f"{words}; from captures made with {option}.", plot))


plot_qk_scatter = _of_heads("qk_scatter", "r_q against r_k on PCA component 0 (4.2), a mark per head, with the regions of the head "
                            "classes.")
plot_qk_map = _of_heads("qk_map", "r_q and r_k on PCA component 0 by layer and head.")
plot_bias_histogram = _of_heads("bias_histogram", "Bias strength (4.6) times the context, in logits, heads counted.")
plot_bias_map = _of_heads("bias_map", "Bias strength times the context, in logits, by layer and head.")
plot_bias_in_sd_map = _of_heads("bias_in_sd_map", "Bias strength times the context, in standard deviations of the score difference of "
                                "two keys of a document.")
plot_profile = _of_heads("profile", "Plasticity along the context (4.4.5): a trace per head, means of RoPE and NoPE layers with 95 % "
                         "intervals.")
plot_heatmap = _of_heads("heatmap", "Plasticity by the distance of two keys and of the query (6.2.2), in tokens, mean over heads.")
plot_plasticity_map = _of_heads("plasticity_map", "Plasticity over the whole context by layer and head.")
plot_softmax_first = _of_capture("softmax_first", "--softmax", "Share of the attention on the first token along the context")
plot_softmax_entropy = _of_capture("softmax_entropy", "--softmax", "Entropy of the attention along the context, in nats")
plot_softmax_distance = _of_capture("softmax_distance", "--softmax", "Share of the attention by distance from query to key, in tokens")
plot_loss = _of_capture("loss", "--loss", "Loss of the next token along the context, in nats")


@q_head_was_head
def plot_plane(capture: Capture, layer: int, q_head: int) -> Figure:
    """Queries and keys of a head in the plane of drift a and separation b (4.3.2), coloured by position."""
    rows, report = _rows(capture, "plane"), _report(capture)
    return draw(_qkgeom.plane(rows, report, layer, q_head))


def figures_of(capture: Capture) -> list[tuple[str, Figure]]:
    """All figures that `qkgeom report` draws, in its order, with the names of its files."""
    report = _report(capture)
    found = [(n, _qkgeom.figure(report, n)) for n in ("qk_scatter", "qk_map", "bias_histogram", "bias_map")]
    found += [(f"plane_layer{layer}_head{head}", _qkgeom.plane(capture._set, report, layer, head))
              for layer, head in _qkgeom.drawn_heads(report)]
    found += [(n, _qkgeom.figure(report, n)) for n in ("bias_in_sd_map", "profile", "heatmap", "plasticity_map")]
    found += _qkgeom.statistics_figures(capture._set, report)
    return [(name, draw(f)) for name, f in found]


def svg_of(figure: Figure) -> str:
    """The figure as an SVG file."""
    import matplotlib

    to = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(to, format="svg", metadata={"Date": None, "Creator": None})
    return to.getvalue()
