#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks a page of examples/report against the tables and figures in its folder.

Usage: report_check.py FOLDER

The page must be well-formed XML and load nothing; ids must be unique and references must exist. It must hold every
figure of the folder with all marks, every head of heads.csv with its full values, and the verdict on AP_drop that follows
from model_columns.csv. Prints what is wrong and exits with 1, else prints the verdict's sentence.
"""
import csv
import json
import math
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def text_of(element):
    return "".join(element.itertext())


def main():
    folder = pathlib.Path(sys.argv[1])
    source = (folder / "report.html").read_text()
    wrong = []

    def check(holds, what):
        if not holds:
            wrong.append(what)

    root = ElementTree.fromstring(source)
    elements = list(root.iter())

    # The page loads nothing: no element that could, references only to the page itself.
    for e in elements:
        check(e.tag not in ("img", "image", "link", "iframe", "object", "embed", "audio", "video", "base"), f"<{e.tag}>")
        for name, value in e.attrib.items():
            check(name not in ("src", "srcset", "action", "data", "poster") and not name.startswith("on"), f"{e.tag} {name}={value}")
            check(name != "href" or value.startswith("#"), f"href {value}")
            check("url(" not in value or "url(#" in value, f"{name}={value}")
    styles = [text_of(e) for e in elements if e.tag == "style"]
    check(len(styles) == 1 and "url(" not in styles[0] and "@import" not in styles[0], "a style sheet that loads")
    scripts = [e for e in elements if e.tag == "script" and e.get("type") is None]
    check(len(scripts) == 1, "there is not one script")
    check("http:" not in source and "https:" not in source, "an address of the network")

    # Unique ids, existing references.
    ids = [e.get("id") for e in elements if e.get("id")]
    twice = sorted({i for i in ids if ids.count(i) > 1}) if len(set(ids)) < len(ids) else []
    check(not twice, f"ids given twice: {twice}")
    known = set(ids)
    for e in elements:
        for name in ("aria-labelledby", "aria-describedby"):
            check(e.get(name) is None or e.get(name) in known, f"{name}={e.get(name)}")
        if e.get("href"):
            check(e.get("href")[1:] in known, f"href {e.get('href')}")
        for target in re.findall(r"url\(#([^)]*)\)", " ".join(e.attrib.values())):
            check(target in known, f"url(#{target})")

    # Every figure, with all elements.
    drawn = {e.get("id")[len("figure-"):]: e for e in elements if e.tag == "figure" and e.get("id")}
    files = {f.stem: f for f in folder.glob("*.svg")}
    check(set(drawn) == set(files), f"figures {sorted(drawn)}, files {sorted(files)}")
    for name in set(drawn) & set(files):
        there = re.findall(r"<(use|polygon|path|text)\b", files[name].read_text())
        here = [e.tag for e in drawn[name].iter()]
        check(len(there) > 0, f"{name}.svg is empty")
        for tag in ("use", "polygon", "path", "text"):
            check(here.count(tag) == there.count(tag), f"{name}: {here.count(tag)} {tag} of {there.count(tag)}")

    # Every head, with full values.
    table = next(e for e in elements if e.get("id") == "head-table")
    head = [" ".join(text_of(th).split()) for th in table.find("thead").iter("th")]
    rows = {text_of(tr[0]): tr for tr in table.find("tbody")}
    heads = {f"{r['layer']}.{r['q_head']}": r for r in csv.DictReader(open(folder / "heads.csv", newline=""))}
    check(list(rows) == list(heads) and rows, f"rows {list(rows)}, heads {list(heads)}")
    columns = {"AP overall": "ap_overall", "AP_drop": "ap_drop", "Bias logits × context": "bias_context_logits", "r_k axis a": "r_k_a",
               "r_q PC0": "r_q_pc0", "Key head": "k_head"}
    for name in set(rows) & set(heads):
        for shown, column in columns.items():
            cell, value = rows[name][head.index(shown)], heads[name][column]
            check((cell.get("data-value") or "") == value or float(cell.get("data-value")) == float(value),
                  f"head {name}: {shown} is {cell.get('data-value')}, {column} {value}")
        check(rows[name].get("data-class").replace("-", "_") == heads[name]["head_class"], f"head {name}: class")
        check((rows[name].get("data-kind") == "RoPE") == (heads[name]["rope"] == "1"), f"head {name}: layers")
    for th in (e for e in elements if e.tag == "th"):
        check(th.get("scope") in ("col", "row", "rowgroup"), f"th {text_of(th)} has scope {th.get('scope')}")

    # The map of heads, and the data from which the script draws each: its profiles are those of profile.csv.
    overview = next(e for e in elements if e.get("id") == "overview")
    links = [a.get("href") for a in overview.iter("a")]
    check(links == [f"#head-{name}" for name in heads], f"the map has {links}")
    data = json.loads(text_of(next(e for e in elements if e.get("id") == "head-data")))
    check([h["name"] for h in data["heads"]] == list(heads), "the data are not of the heads")
    wanted = {}
    for r in csv.DictReader(open(folder / "profile.csv", newline="")):
        if r["plasticity"] and r["covariance"] != "empirical_unbiased":
            wanted.setdefault((f"{r['layer']}.{r['q_head']}", r["covariance"]), []).append(float(r["plasticity"]))
    found = {(h["name"], model): [p[1] for p in line] for h in data["heads"] for model, line in h["profiles"].items() if line}
    close = lambda a, b: len(a) == len(b) and all(math.isclose(x, y, rel_tol=6e-4) for x, y in zip(a, b))
    check(set(found) == set(wanted), f"profiles {sorted(set(found) ^ set(wanted))}")
    for key in set(found) & set(wanted):
        check(close(found[key], wanted[key]), f"profile of {key}: {found[key]}, not {wanted[key]}")

    # The verdict, on the first screen alone.
    sentence = " ".join(text_of(next(overview.iter("p"))).split())
    drop = next(r for r in csv.DictReader(open(folder / "model_columns.csv", newline=""))
                if r["group"] == "all" and r["column"] == "ap_drop")
    mean, error = float(drop["mean"]), float(drop["mean_error"] or "nan")
    notes = "".join(r["text"] for r in csv.DictReader(open(folder / "notes.csv", newline="")))
    few = re.search(r"errors over (\d+) documents", notes)
    factor = {"3": 4.302653, "4": 3.182446}[few[1]] if few else 2  # Student's t, 0.975
    sure = not math.isnan(error) and abs(mean - 0.1) > factor * error
    begins = ("Met: " if mean < 0.1 else "Not met: ") if sure else "Cannot be said: "
    check(sentence.startswith(begins) and f"{mean:.3f}" in sentence, f"AP_drop {mean} ± {error}: {sentence}")

    check(" ".join(text_of(root).split()).count(sentence) == 1, "the verdict stands twice")

    print("\n".join(wrong) or sentence)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
