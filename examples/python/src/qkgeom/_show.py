# SPDX-License-Identifier: MIT
"""repr of the result classes, and what notebooks show of them."""
from __future__ import annotations

import html
import typing

from . import _qkgeom


def short(value: typing.Any) -> str:
    if isinstance(value, _qkgeom.Estimate):
        return _cell(value)
    if hasattr(value, "_fields"):
        return f"{type(value).__name__}(...)"
    if hasattr(value, "shape"):
        return f"array{tuple(value.shape)}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {short(x)}" for name, x in value.items()) + "}"
    if isinstance(value, list) and value:
        if hasattr(value[0], "_fields"):
            return f"[{len(value)} x {type(value[0]).__name__}]"
        if len(value) > 8:
            return f"[{len(value)} values]"
        return "[" + ", ".join(short(v) for v in value) + "]"
    return repr(value)


def show(record: typing.Any) -> str:
    return f"{type(record).__name__}(" + ", ".join(f"{n}={short(getattr(record, n))}" for n in record._fields) + ")"


def _cell(x: typing.Any) -> str:
    if isinstance(x, _qkgeom.Estimate):
        return _cell(x.value) + (f" ± {x.error:.2g}" if x.error == x.error else "")
    if x is None or x != x:
        return ""
    return f"{x:.4g}" if isinstance(x, float) else html.escape(str(x))


def html_table(columns: typing.Mapping[str, typing.Sequence[typing.Any]], caption: str, most: int = 20) -> str:
    """A table of HTML; of more than `most` rows the first and the last."""
    rows = list(zip(*columns.values()))
    shown = [[_cell(x) for x in row] for row in rows]
    if len(rows) > most:
        shown[most // 2:most // 2 - most] = [["⋮"] * len(columns)]

    def line(tag: str, cells: typing.Iterable[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{c}</{tag}>" for c in cells) + "</tr>"

    return (f"<table><caption>{html.escape(caption)}</caption><thead>{line('th', map(html.escape, columns))}</thead>"
            f"<tbody>{''.join(line('td', row) for row in shown)}</tbody></table>")


def _of_table(table: _qkgeom.Table) -> str:
    return html_table(table.to_dict(), f"{len(table)} rows × {len(table.columns)} columns")


def _of_profile(profile: _qkgeom.Profile) -> str:
    names = ("start", "end", "queries", "pairs", "plasticity", "standard_error")
    return html_table({n: getattr(profile, n).tolist() for n in names}, f"Plasticity by query bucket, {profile.covariance}, tokens")


def _of_report(report: _qkgeom.Report) -> str:
    summary, heads = report.summary, report.table("heads").to_dict()
    numbers = ("overall", "first20", "last20", "drop")
    means = {"query model": list(summary)} | {n: [getattr(s, n) for s in summary.values()] for n in numbers}
    names = ("layer", "q_head", "head_class", "bias_context_logits", "ap_overall", "ap_drop")
    notes = "".join(f"<li>{html.escape(n.text)}</li>" for n in report.notes)
    return (html_table(means, f"{report.model or 'Rows'}: plasticity, mean of {len(report)} heads over {report.context_length} tokens")
            + html_table({n: heads[n] for n in names}, "Heads") + (f"<ul>{notes}</ul>" if notes else ""))


for _class, _show in ((_qkgeom.Table, _of_table), (_qkgeom.Profile, _of_profile), (_qkgeom.Report, _of_report)):
    setattr(_class, "_repr_html_", _show)
