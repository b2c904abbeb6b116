# SPDX-License-Identifier: MIT
"""Captures on disk."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import tempfile
import typing
import warnings
import weakref

import numpy as np

from . import _qkgeom
from ._qkgeom import Error, Report, Table
from ._renamed import q_head_was_head
from ._show import html_table

Path = typing.Union[str, "os.PathLike[str]"]


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # not in a forked child, whose parent goes on reading
        shutil.rmtree(folder, ignore_errors=True)


class Options(typing.TypedDict, total=False):
    """The options of `open_capture`."""

    buckets: int | typing.Sequence[int] | None
    covariance: str | typing.Sequence[str]
    pairs: str
    sampled_pairs: int
    seed: int
    heads: typing.Sequence[tuple[int, int]]
    progress: typing.Callable[[int, int], None] | bool | None


class WhatIf(typing.NamedTuple):
    """What `Capture.what_if` predicts; docs/columns.md describes the tables."""

    heads: Table
    """what_if.csv: numbers of each head, captured and predicted, with an interval of nine in ten."""
    self_check: Table
    """self_check.csv: how well the capture's first parts predict the whole."""
    stationarity: Table
    """stationarity.csv: how rows before the rotary embedding depend on position."""
    captured: Report
    predicted: Report


class Bands(typing.NamedTuple):
    """What `Capture.bands` finds; docs/columns.md describes the tables."""

    drops: Table
    """band_drops.csv: parts of AP_drop."""
    planes: Table
    """planes.csv: a row per head and plane."""
    scores: Table
    """score_by_distance.csv: mean scores by distance."""


class Grip(typing.NamedTuple):
    """What `Capture.grip` predicts; docs/columns.md describes the tables."""

    grip: Table
    """grip.csv: a row per head, kind of needle, number of competing keys and top."""
    heads: Table
    """grip_heads.csv: grip in the whole context, chance and reach, a row per head."""
    reach: Table
    """reach.csv: share of the matched keys that are kept, by distance."""
    stability: Table
    """stability.csv: how stable the order of keys is under distance."""
    check: Table
    """grip_check.csv: how well the capture's first parts predict the whole, and with `actual` the whole long documents."""


def require_programs() -> None:
    """Raises RuntimeError where the package was built apart from the sources of the programs."""
    if not hasattr(_qkgeom, "figure"):
        raise RuntimeError("this package was built from a folder apart from qkgeom's sources, whose programs make figures, pages, "
                           "exports and predictions: pip install ./examples/python within them")


class Capture:
    """One or several captures of one model, as `open_capture` gives them; what is asked for is analysed once and kept."""

    def __init__(self, paths: list[str], options: dict[str, typing.Any]) -> None:
        self._paths = paths
        self._set = _qkgeom.open_captures(paths)
        self._options = options
        self._report: Report | None = None
        self._own: str | None = None

    def _owning(self, folder: str) -> Capture:
        """This capture, which removes its folder with itself."""
        self._own = folder
        weakref.finalize(self, _remove, folder, os.getpid())
        return self

    def __getstate__(self) -> dict[str, typing.Any]:
        files = None
        if self._own is not None:
            files = {p.name: p.read_bytes() for p in pathlib.Path(self._own).iterdir()}
        return {"paths": self._paths, "files": files, "options": self._options | {"progress": None}, "report": self._report}

    def __setstate__(self, state: dict[str, typing.Any]) -> None:
        if state["files"] is None:
            self.__init__(state["paths"], state["options"])  # type: ignore[misc]
        else:
            folder = tempfile.mkdtemp()
            for name, content in state["files"].items():
                pathlib.Path(folder, name).write_bytes(content)
            self.__init__([folder], state["options"])  # type: ignore[misc]
            self._owning(folder)
        self._report = state["report"]

    def __repr__(self) -> str:
        return f"Capture(model={self.model!r}, context_length={self.context_length}, layers={self.layers})"

    def _repr_html_(self) -> str:
        heads = sum(len(layer["query_heads"]) for layer in self.manifest["layers"])
        facts = {"model": self.model, "context length": self.context_length, "documents": len(self.manifest.get("examples", [])),
                 "layers": len(self.layers), "query heads": heads}
        return html_table({"": list(facts), " ": list(facts.values())}, "Capture")

    @property
    def model(self) -> str:
        """The model's name."""
        return self._set.model

    @property
    def context_length(self) -> int:
        """Tokens at which documents were cut."""
        return self._set.context_length

    @property
    def layers(self) -> list[int]:
        """Numbers of the captured layers."""
        return list(self._set.layers)

    @property
    def manifest(self) -> dict[str, typing.Any]:
        """The manifest (docs/formats.md)."""
        return typing.cast("dict[str, typing.Any]", json.loads(self._set.manifest_json))

    def report(self, path: Path | None = None) -> Report:
        """The analysis of all heads, as `qkgeom heads` runs it. Its notes are Python warnings too.

        path: a folder that its tables are written to; or a file *.html for the page of `qkgeom report`, with the tables
        and the figures (SVG, drawn by matplotlib) beside it.
        """
        if self._report is None:
            self._report = _analyse(self._set, self._options)
            for note in self._report.notes:
                warnings.warn(note.text, stacklevel=2)
        if path is not None and os.fspath(path).endswith(".html"):
            self._write_page(pathlib.Path(path), self._report)
        elif path is not None:
            self._report.write(os.fspath(path))
        return self._report

    def _write_page(self, page: pathlib.Path, report: Report) -> None:
        from ._plots import figures_of, svg_of

        require_programs()
        report.write(os.fspath(page.parent))
        drawn = [(name, svg_of(figure)) for name, figure in figures_of(self)]
        for name, svg in drawn:
            (page.parent / f"{name}.svg").write_text(svg, encoding="utf-8")
        chosen = self._options
        words = ", ".join([repr(self._paths), *(f"{n}={v!r}" for n, v in chosen.items() if n != "progress")])
        page.write_text(_qkgeom.page(self._set, report, f"qkgeom.open_capture({words}).report({str(page)!r})",
                                     chosen["covariance"], self._pairs(), chosen["seed"], drawn), encoding="utf-8")

    def export(self, format: typing.Literal["expected-attention", "triattention", "tria", "duo", "rope-profiler"],
               folder: Path | None = None, *, texts: str | None = None, sink: int = 64, recent: int = 256) -> pathlib.Path:
        """Writes statistics of the heads as other tools read them, and returns their folder.

        expected-attention: kvpress' model.safetensors and config.json; triattention: triattention.pt; tria: tria.bin of
        TriAttention in llama.cpp; rope-profiler: heads for its MonitorConfig; all of captures from before the rotary
        embedding (`pre_rope=True`). duo: DuoAttention's full_attention_heads.tsv and config.json, of captures
        with `softmax=True`; every head keeps `sink` first tokens (1, 4 or 64) and `recent` latest (a power of 2).
        folder: None: named as the format. texts: what the documents are called in the file. Raises ValueError where the
        capture lacks what the format holds.
        """
        require_programs()
        to = pathlib.Path(format if folder is None else folder)
        _qkgeom.export_to(self._paths, format, os.fspath(to), self.model if texts is None else texts, sink, recent)
        return to

    def what_if(self, context: int = 0, *, rope_theta: float | None = None, rope_scaling: str = "",
                keep_first: int = 4) -> WhatIf:
        """Predicts every head at a context of that many tokens (0: as captured) or under another rotary embedding, as
        `qkgeom what-if` does.

        rope_scaling: "none", "linear:FACTOR", "dynamic:FACTOR", "yarn:FACTOR:CONTEXT", ...; "": the model's own. keep_first:
        tokens at a document's start that keep their positions. What makes a prediction doubtful is a Python warning.
        """
        require_programs()
        o = self._options
        return WhatIf(*_qkgeom.what_if(self._paths, o["buckets"], o["covariance"], self._pairs(), o["seed"], o["heads"], context,
                                       rope_theta, rope_scaling, keep_first))

    def bands(self, context: int = 0, *, keep_first: int = 4) -> Bands:
        """What the planes of the rotary embedding do to scores and to the fall of plasticity, as `qkgeom bands` computes it; context
        and keep_first as in `what_if`."""
        require_programs()
        o = self._options
        return Bands(*_qkgeom.bands(self._paths, o["buckets"], o["covariance"], o["seed"], o["heads"], context, keep_first))

    def grip(self, context: int = 0, *, rope_theta: float | None = None, rope_scaling: str = "", near: int = 0, queries: int = 32,
             actual: typing.Sequence[Path] = ()) -> Grip:
        """Predicts which heads keep the key that they have found among `context` keys (0: as captured), and how far they see, as
        `qkgeom grip` does. Needs the keys of every token.

        rope_theta, rope_scaling: another embedding, as in `what_if`. near: nearest keys among which a key is found, tokens; 0: 512,
        at most half of the captured context. queries: drawn in each document. actual: captures of long documents that count the
        same. Notes on where it fails are Python warnings.
        """
        require_programs()
        o = self._options
        return Grip(*_qkgeom.grip(self._paths, o["seed"], o["heads"], context, rope_theta, rope_scaling, near, queries,
                                  [os.fspath(path) for path in actual]))

    def _pairs(self) -> str:
        """The pairs as `--pairs` names them."""
        chosen, sampled = self._options["pairs"], self._options["sampled_pairs"]
        return f"sampled:{sampled}" if sampled and chosen == "all" else typing.cast(str, chosen)

    def heads(self) -> Table:
        """heads.csv: a row per head, all analyses side by side."""
        return self.report().table("heads")

    def profile(self) -> Table:
        """profile.csv: plasticity per head, query bucket and model."""
        return self.report().table("profile")

    @q_head_was_head
    def heatmap(self, layer: int, q_head: int) -> np.ndarray[typing.Any, np.dtype[np.float64]]:
        """Mean plasticity of a head (key distance, query distance) in cells of tokens; NaN where there is no pair."""
        cells = next(iter(self.report().head(layer, q_head).profile.values())).heatmap
        with np.errstate(invalid="ignore"):
            return typing.cast("np.ndarray[typing.Any, np.dtype[np.float64]]", cells.sum / cells.weight)


def _analyse(captures: _qkgeom.CaptureSet, options: dict[str, typing.Any]) -> Report:
    options = dict(options)
    progress = options.pop("progress", None)
    if progress is not True:
        return captures.analyse(progress=progress or None, **options)
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return captures.analyse(**options)
    with tqdm(desc="Analysing", unit="head") as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        return captures.analyse(progress=show, **options)


def open_capture(
    path: Path | typing.Sequence[Path],
    *,
    buckets: int | typing.Sequence[int] | None = None,
    covariance: str | typing.Sequence[str] = "joint",
    pairs: str = "all",
    sampled_pairs: int = 0,
    seed: int = 0,
    heads: typing.Sequence[tuple[int, int]] = (),
    progress: typing.Callable[[int, int], None] | bool | None = None,
) -> Capture:
    """Opens a capture, or several of one model as one.

    buckets: width of the query buckets in tokens, or edges; None: the capture's own, else a sixteenth of the context.
    covariance: 'diagonal', 'full', 'joint' or 'linear_drift', or several, of which the first is the headline, and 'empirical'
    for the observed queries. pairs, sampled_pairs, seed: as in `analyse`. heads: (layer, q_head) to analyse; empty: all.
    progress: called with (heads done, heads in all) after each layer; True shows tqdm's bar if it is there.
    Raises ValueError naming the file and what is wrong with it.
    """
    paths: list[Path] = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    for p in paths:
        if not os.path.exists(p):
            raise Error(f"{os.fspath(p)} is no file or folder: open_capture reads captures, which qkgeom.capture(model) and the program "
                        "qkgeom capture write")
    models = [covariance] if isinstance(covariance, str) else list(covariance)
    return Capture([os.fspath(p) for p in paths], {
        "buckets": buckets, "covariance": models, "pairs": pairs, "sampled_pairs": sampled_pairs, "seed": seed,
        "heads": list(heads), "progress": progress,
    })


open = open_capture  # noqa: A001: as in gzip.open
