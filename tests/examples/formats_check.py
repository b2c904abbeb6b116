#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks docs/formats.md against the files of the programs.

Usage: formats_check.py FORMATS.md NAME=FOLDER...

The program NAME wrote FOLDER; the page's table of programs lists NAME. FOLDER must hold the CSV files and figures that
the table lists, each file the columns of its section in the same order, and each section must describe a file that was
written. Prints the differences; exit status 1 if there are any.
"""
import itertools
import pathlib
import re
import sys


def split_top(text):
    """Splits a list at commas outside braces."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "{") - (c == "}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def expanded(name, lists):
    """The columns of a name: expands braces as a shell does, and the names of `lists`."""
    for key, values in lists.items():
        name = re.sub(rf"\b{key}(?=_|\b|{{)", "{" + ",".join(values) + "}", name)
    pieces = [[p] if i % 2 == 0 else p.split(",") for i, p in enumerate(re.split(r"[{}]", name))]
    return ["".join(p) for p in itertools.product(*pieces)]


def documented(page):
    """file -> names of its columns as the page writes them."""
    sections = {}
    for block in re.split(r"^### ", page, flags=re.M)[1:]:
        title, _, body = block.partition("\n")
        cells = re.findall(r"^\| *((?:`[^`]*`[, ]*)+)\|", body.split("\n## ")[0], re.M)
        sections[title.strip()] = [n for cell in cells for code in re.findall(r"`([^`]*)`", cell) for n in split_top(code)]
    return sections


def programs(page):
    """program -> (tables, figures) of the table of programs."""
    rows = {}
    for name, tables, figures in re.findall(r"^\| (`[^|]+?) \|([^|]*)\|([^|]*)\|$", page.split("\n## Tables\n")[1].split("\n### ")[0],
                                            re.M):
        rows[name.replace("`", "")] = (re.findall(r"\w+\.csv", tables), [] if "none" in figures else re.findall(r"\w+", figures))
    base = [*dict.fromkeys(itertools.chain(*(rows[n][0] for n in ("pca", "rotation", "plasticity"))))]
    figures = [*itertools.chain(*(rows[n][1] for n in ("pca", "rotation", "plasticity")))]
    rows["heads"] = (base + rows["heads"][0], figures)
    more = "heads, captures with --softmax --loss"
    rows[more] = (rows["heads"][0] + rows[more][0], figures + [f for f in rows[more][1] if f != "also"])
    rows["heads --group-by LABEL"] = (rows["heads"][0] + rows["heads --group-by LABEL"][0], figures)
    rows["heads --details"] = (rows["heads"][0] + rows["heads --details"][0], figures + ["decay", "later_keys"])
    actual = "what-if --actual CAPTURE"
    rows[actual] = (rows["what-if"][0] + rows[actual][0], rows["what-if"][1])
    each = "bands --each-plane"
    rows[each] = (rows["bands"][0] + rows[each][0], rows["bands"][1])
    contexts = "heads --max-position N,..."
    rows[contexts] = (rows["heads"][0] + rows[contexts][0], figures + ["contexts"])
    return rows


def main():
    page = pathlib.Path(sys.argv[1]).read_text()
    sections, table, wrong, headers = documented(page), programs(page), [], {}
    given = dict(a.split("=", 1) for a in sys.argv[2:])
    if set(given) != set(table):
        wrong.append(f"programs run: {sorted(given)}, programs in the table: {sorted(table)}")
    for name, folder in given.items():
        tables, figures = table.get(name, ([], []))
        files = [*pathlib.Path(folder).iterdir()]
        for f in files:
            if f.suffix == ".csv":
                headers.setdefault(f.name, f.read_text().split("\n", 1)[0].split(","))
        written = sorted(f.name for f in files if f.suffix == ".csv")
        if written != sorted(tables):
            wrong.append(f"{name} writes {written}, the page says {sorted(tables)}")
        drawn = {re.sub(r"layer\d+_head\d+$", "layerL_headH", re.sub(r"_of_.*$", "_of_MODEL", re.sub(r"^score_.*$", "score_NAME", f.stem)))
                 for f in files if f.suffix in (".png", ".svg")}
        if drawn != set(figures):
            wrong.append(f"{name} draws {sorted(drawn)}, the page says {sorted(figures)}")
    first = headers.get("heads.csv", ["ev_pc0"])
    column = [c for c in first[first.index("ev_pc0"):] if c not in ("covariance", "pairs")]
    models = headers.get("models.csv", ["ap_overall"])
    lists = {"COLUMN": column, "NUMBER": [c for c in column if not c.endswith("_error")],
             "HEADLINE": [c for c in models[models.index("ap_overall"):] if not c.endswith("_error")]}
    for name in sorted(set(headers) | set(sections)):
        listed = [c for n in sections.get(name, []) for c in expanded(n, lists)]
        if listed != headers.get(name, []):
            here, there = set(listed), set(headers.get(name, []))
            wrong.append(f"{name}: only on the page {sorted(here - there)}, only in the file {sorted(there - here)}"
                         if here != there else f"{name}: other order, the file has {headers[name]}")
    print("\n".join(wrong) or f"{len(headers)} files of {len(given)} programs are as described")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
