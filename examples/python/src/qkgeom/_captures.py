# SPDX-License-Identifier: MIT
"""Captures on disk."""
from __future__ import annotations

import json
import os
import pathlib
import typing
import warnings

import numpy as np

from . import _qkgeom
from ._qkgeom import Error, Report, Table

Path = typing.Union[str, "os.PathLike[str]"]


class Capture:
    """One or several captures of one model; what is asked for is analysed once and kept."""

    def __init__(self, paths: list[str], options: dict[str, typing.Any]) -> None:
        self._paths = paths
        self._set = _qkgeom.open_captures(paths)
        self._options = options
        self._report: Report | None = None

    def __getstate__(self) -> dict[str, typing.Any]:
        gone = [p for p in self._paths if not os.path.exists(p)]
        if gone:
            raise ValueError(f"{gone[0]} is gone, which a pickle of this capture names: cap.write(folder) keeps one, and "
                             "qkgeom.open(folder) reads it")
        return {"paths": self._paths, "options": self._options | {"progress": None}, "report": self._report}

    def __setstate__(self, state: dict[str, typing.Any]) -> None:
        self.__init__(state["paths"], state["options"])  # type: ignore[misc]
        self._report = state["report"]

    def __repr__(self) -> str:
        return f"Capture(model={self.model!r}, context_length={self.context_length}, layers={self.layers})"

    @property
    def model(self) -> str:
        return self._set.model

    @property
    def context_length(self) -> int:
        """Tokens at which documents were cut."""
        return self._set.context_length

    @property
    def layers(self) -> list[int]:
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
        from ._plots import figures_of, require_programs, svg_of

        require_programs()
        report.write(os.fspath(page.parent))
        drawn = [(name, svg_of(figure)) for name, figure in figures_of(self)]
        for name, svg in drawn:
            (page.parent / f"{name}.svg").write_text(svg, encoding="utf-8")
        chosen = self._options
        sampled = chosen["sampled_pairs"]
        pairs = f"sampled:{sampled}" if sampled and chosen["pairs"] == "all" else chosen["pairs"]
        words = ", ".join([repr(self._paths), *(f"{n}={v!r}" for n, v in chosen.items() if n != "progress")])
        page.write_text(_qkgeom.page(self._set, report, f"qkgeom.open({words}).report({str(page)!r})",
                                     chosen["covariance"], pairs, chosen["seed"], drawn), encoding="utf-8")

    def heads(self) -> Table:
        """heads.csv: a row per head, all analyses side by side."""
        return self.report().table("heads")

    def profile(self) -> Table:
        """profile.csv: plasticity per head, query bucket and model."""
        return self.report().table("profile")

    def heatmap(self, layer: int, head: int) -> np.ndarray[typing.Any, np.dtype[np.float64]]:
        """Mean plasticity of a head (key distance, query distance) in cells of tokens; NaN where there is no pair."""
        cells = self.report().head(layer, head).profiles[0].heatmap
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


def open(  # noqa: A001: as in gzip.open
    path: Path | list[Path],
    *,
    buckets: int | list[int] | None = None,
    covariance: str | typing.Sequence[str] = ("diagonal", "joint", "empirical"),
    pairs: str = "all",
    sampled_pairs: int = 0,
    seed: int = 0,
    heads: typing.Sequence[tuple[int, int]] = (),
    progress: typing.Callable[[int, int], None] | bool | None = None,
) -> Capture:
    """Opens a capture, or several of one model as one.

    buckets: width of the query buckets in tokens, or edges; None: the capture's own. heads: (layer, head) to analyse;
    empty: all. progress: called with (heads done, heads in all) after each layer; True shows tqdm's bar if it is there.
    Raises ValueError naming the file and what is wrong with it.
    """
    paths = path if isinstance(path, list) else [path]
    for p in paths:
        if not os.path.exists(p):
            raise Error(f"{os.fspath(p)} is no file or folder: open reads captures, which qkgeom.capture(model) and the program "
                        "qkgeom capture write")
    models = [covariance] if isinstance(covariance, str) else list(covariance)
    return Capture([os.fspath(p) for p in paths], {
        "buckets": buckets, "covariance": models, "pairs": pairs, "sampled_pairs": sampled_pairs, "seed": seed,
        "heads": list(heads), "progress": progress,
    })
