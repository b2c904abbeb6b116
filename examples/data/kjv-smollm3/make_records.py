#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes records.json: the words of the recall task of train.py, most frequent first.

Usage: make_records.py > records.json      (needs the `bible` program, like train.py)
"""
import collections
import json
import re
import sys

from bible_text import HELD_OUT, read_books


def words(text, pattern):
    return [w for w, n in collections.Counter(re.findall(pattern, text)).most_common() if n >= 20]


text = "".join(book for name, book in read_books().items() if name not in HELD_OUT)
json.dump({"before": "The lot of ", "between": " is ", "after": ".\n",
           "names": words(text, r"(?<=[a-z,] )[A-Z][a-z]{3,}\b")[:200],
           "things": words(text, r"(?<= )[a-z]{4,8}\b")[40:340]}, sys.stdout, indent=0)
