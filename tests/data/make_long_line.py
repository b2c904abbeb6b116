#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/tokenizers/long-line.json: what the `tokenizers` library makes of one line of ten megabytes, the books of
heldout.jsonl without their line ends, over and over: how many ids, and a hash of them (FNV-1a over 32-bit little-endian ids).

Usage: make_long_line.py EXAMPLES/data/kjv-smollm3/heldout.jsonl TESTS/data/tokenizers   (needs tokenizers)
"""
import json
import pathlib
import sys

import tokenizers

from make_token_ids import fnv1a

SCHEMES = ("llama3", "mistral", "gemma3")
BYTES = 10_000_000


def main(books, folder):
    text = "".join(json.loads(line)["text"].replace("\n", " ") + " " for line in open(books))
    line = text * -(-BYTES // len(text.encode()))
    out = {"tokenizers": tokenizers.__version__, "bytes": len(line.encode()), "ids": {}}
    for name in SCHEMES:
        ids = tokenizers.Tokenizer.from_file(str(folder / (name + ".json"))).encode(line).ids
        out["ids"][name] = {"count": len(ids), "hash": fnv1a(ids)}
    (folder / "long-line.json").write_text(json.dumps(out, indent=1) + "\n")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
