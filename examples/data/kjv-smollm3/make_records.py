#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes records.json: the words of the recall task of train.py, most frequent first.

Usage: make_records.py > records.json      (needs the `bible` program, like train.py)
"""
import collections
import json
import re
import subprocess
import sys

HELD_OUT = ["Ezra", "Neh", "Est", "Eccl", "Dan", "Hos", "Zec", "Mark", "Rom", "1Cor", "Heb", "Rev"]


def training_text():
    """The training text of train.py: a heading per chapter, a line per verse, without the held-out books."""
    books, last = {}, None
    raw = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True).stdout
    for line in raw.splitlines():
        found = re.match(r"^(\d?[A-Za-z]+)(\d+):\d+\s+(.*)$", line)
        if not found:
            continue
        book, chapter, verse = found.groups()
        text = books.setdefault(book, [])
        if (book, chapter) != last:
            text.append(("\n" if text else "") + f"{book} {chapter}\n\n")
            last = (book, chapter)
        text.append(verse.strip() + "\n")
    assert len(books) == 66 and set(HELD_OUT) <= set(books), list(books)
    return "".join("".join(lines) for name, lines in books.items() if name not in HELD_OUT)


def words(text, pattern):
    return [w for w, n in collections.Counter(re.findall(pattern, text)).most_common() if n >= 20]


text = training_text()
json.dump({"before": "The lot of ", "between": " is ", "after": ".\n",
           "names": words(text, r"(?<=[a-z,] )[A-Z][a-z]{3,}\b")[:200],
           "things": words(text, r"(?<= )[a-z]{4,8}\b")[40:340]}, sys.stdout, indent=0)
