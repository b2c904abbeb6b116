#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks docs/formats.md and docs/columns.md against the files of the programs.

Usage: formats_check.py [--write] FORMATS.md COLUMNS.md NAME=FOLDER...

The program NAME wrote FOLDER; FORMATS.md's table of programs lists NAME. FOLDER must hold the CSV files and figures that
the table lists, and columns.csv the columns of each of its files in the same order. COLUMNS.md must have a section for each
file, with the table that columns.csv gives; `--write` puts these tables there. Prints the differences; exit status 1 if there
are any.
"""
import csv
import difflib
import itertools
import pathlib
import re
import sys


def programs(page):
    """program -> (tables, figures) of the table of programs; "also" and "the same" stand for those of the program without options."""
    rows = {}
    for name, tables, figures in re.findall(r"^\| `([^|]+?) \|([^|]*)\|([^|]*)\|$", page.split("\n## Tables\n")[1], re.M):
        name = name.replace("`", "")
        base = [rows[n] for n in (["pca", "rotation", "plasticity"] if name == "heads" else re.findall(r"^[\w-]+(?=[, ])", name))
                if " also " in tables or name == "heads"]
        own = re.findall(r"\w+(?=[, ]|$)", re.sub(r"^ (all of the above|the same.*|also|none)", "", figures))
        rows[name] = ([*dict.fromkeys([t for b in base for t in b[0]] + re.findall(r"\w+\.csv", tables))],
                      [f for b in base for f in b[1]] + own)
    return rows


def described(folder):
    """file -> [(column, meaning)] of the folder's columns.csv."""
    files = {}
    if (folder / "columns.csv").exists():
        for row in csv.DictReader((folder / "columns.csv").open(newline="")):
            files.setdefault(row["file"], []).append((row["column"], row["meaning"]))
    return files


def without_errors(columns):
    """Folds the columns of an estimate to one: name{,_error,_head_error}."""
    folded = []
    for name, meaning in columns:
        of = folded[-1][0].split("{")[0] if folded else None
        for error in ("_error", "_head_error"):
            if of and name == of + error and meaning.startswith(f"standard error of {of} "):
                folded[-1] = (f"{of}{{,_error{',_head_error' if error == '_head_error' else ''}}}", folded[-1][1])
                break
        else:
            folded.append((name, meaning))
    return folded


def with_words(columns, words):
    """Puts a word for the names that it stands for where a table has a column of each of them, with one meaning."""
    for word, names in words.items():
        found = []
        for name, meaning in columns:
            of = next((n for n in sorted(names, key=len, reverse=True) if re.match(rf"{n}(?=$|_|{{)", name)), None)
            entry = (name, meaning)
            if of and re.search(rf"\b{of}\b", meaning):
                entry = (word + name[len(of):], re.sub(rf"\b{of}\b", word, meaning))
            if entry not in found:
                found.append(entry)
        if len(found) + len(names) <= len(columns) + 3:
            columns = found
    return columns


def rows_of(columns, earlier):
    """(names, meaning) of the table's rows; `earlier`: file -> columns of the tables above it on the page."""
    rows, i = [], 0
    while i < len(columns):
        n, file = 0, None
        for other, there in earlier.items():
            more = next((k for k, c in enumerate(columns[i:]) if c not in there), len(columns) - i)
            if more > n:
                n, file = more, other
        if n >= 2:
            rows.append(([name for name, _ in columns[i:i + n]], f"as in [{file}](columns.md#{file.replace('.', '')})"))
        elif rows and rows[-1][1] == columns[i][1]:
            rows[-1][0].append(columns[i][0])
        else:
            rows.append(([columns[i][0]], columns[i][1]))
        i += n if n >= 2 else 1
    short = [names if len(names) < 12 else [*names[:2], "...", names[-1]] for names, _ in rows]
    return [f"| `{', '.join(names)}` | {meaning} |" for names, (_, meaning) in zip(short, rows)]


def page_of(page, files):
    """The page with the tables of these files, and what is wrong with its sections."""
    heads, models = ([name for name, _ in files.get(f, [])] for f in ("heads.csv", "models.csv"))
    numbers = [c for c in heads[heads.index("ev_pc0"):] if c not in ("covariance", "pairs")]
    plain = [c for c in numbers if not c.endswith("_error")]
    headline = [c for c in models[models.index("ap_overall"):] if not c.endswith("_error")]
    carried = [c for c in plain if (f"{c}_captured", f"{c} of heads.csv, of the capture as it is") in files.get("what_if.csv", [])]
    words = {"trajectory.csv": {"COLUMN": numbers}, "layers.csv": {"NUMBER": plain}, "what_if.csv": {"NUMBER": carried},
             "groups.csv": {"HEADLINE": headline}}
    first, *sections = re.split(r"^## ", page, flags=re.M)
    wrong, earlier, written = [], {}, [first]
    for section in sections:
        title, body = section.split("\n", 1)
        if title not in files:
            wrong.append(f"no program writes {title}")
            continue
        columns = with_words(without_errors(files[title]), words.get(title, {}))
        lines = re.sub(r"(?m)^\|.*\n", "\0", body).split("\0")
        table = "\n".join(["| column | what it is |", "|---|---|", *rows_of(columns, earlier)])
        written.append("\n\n".join(filter(None, [f"## {title}\n{lines[0].strip()}".strip(), table, lines[-1].strip() * (len(lines) > 1)])))
        earlier[title] = columns
    for title in files:
        if title not in earlier:
            wrong.append(f"the page has no section {title}")
    return written[0] + "\n\n".join(written[1:]) + "\n", wrong


def main():
    write = "--write" in sys.argv
    formats, columns, *given = (a for a in sys.argv[1:] if a != "--write")
    table, wrong, files = programs(pathlib.Path(formats).read_text()), [], {}
    given = dict(a.split("=", 1) for a in given)
    if set(given) != set(table):
        wrong.append(f"programs run: {sorted(given)}, programs in the table: {sorted(table)}")
    for name, folder in given.items():
        tables, figures = table.get(name, ([], []))
        here = [*pathlib.Path(folder).iterdir()]
        says = described(pathlib.Path(folder))
        written = sorted(f.name for f in here if f.suffix == ".csv" and f.name != "columns.csv")
        if written != sorted(tables):
            wrong.append(f"{name} writes {written}, the page says {sorted(tables)}")
        for file in sorted({*written, *says}):
            header = (pathlib.Path(folder) / file).read_text().split("\n", 1)[0].split(",") if file in written else []
            if header != [column for column, _ in says.get(file, [])]:
                wrong.append(f"{name}: columns.csv has other columns of {file} than the file")
            if files.setdefault(file, says.get(file)) != says.get(file):
                wrong.append(f"{name}: columns.csv says something else of {file} than that of another program")
        drawn = {re.sub(r"layer\d+_head\d+$", "layerL_headH", re.sub(r"_of_.*$", "_of_MODEL", re.sub(r"^score_.*$", "score_NAME", f.stem)))
                 for f in here if f.suffix in (".png", ".svg")}
        if drawn != set(figures):
            wrong.append(f"{name} draws {sorted(drawn)}, the page says {sorted(figures)}")
    page = pathlib.Path(columns).read_text()
    right, missing = page_of(page, files)
    wrong += missing
    if write and not wrong:
        pathlib.Path(columns).write_text(right)
    elif right != page:
        difference = [line for line in difflib.unified_diff(page.split("\n"), right.split("\n"), lineterm="", n=0) if line[:2] != "@@"]
        wrong += [f"{columns} differs from the programs' columns.csv; formats_test.sh --write mends it:", *difference[2:22]]
    print("\n".join(wrong) or f"{len(files)} files of {len(given)} programs are as described")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
