#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes token-ids.json: what the `tokenizers` library makes of the held-out books (number of ids and their FNV-1a hash, 64
bits, over little-endian 32-bit ids) and of short nasty texts, also with other settings patched into the tokenizer
(JSON merge patch, RFC 7396).

Usage: make_token_ids.py EXAMPLES/data/kjv-smollm3 > token-ids.json   (needs tokenizers)
"""
import json
import pathlib
import random
import struct
import sys

import tokenizers
from tokenizers import Tokenizer

GPT2 = {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                          "use_regex": True, "pretokenizers": None}}
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}"
          r"\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = {"single_word": False, "special": True, "normalized": False}
PATCHES = {
    "as it is": {},
    "gpt2 words, space in front": GPT2,
    "one digit, tekken words": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": TEKKEN}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}},
    "split at a string, removed": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"String": "."}, "behavior": "Removed", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}},
    "whole words first": {"model": {"ignore_merges": True}},
    "first and last token": {"post_processor": {
        "type": "TemplateProcessing", "pair": [],
        "single": [{"SpecialToken": {"id": "<|end_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "!", "type_id": 0}}],
        "special_tokens": {"<|end_of_text|>": {"id": "<|end_of_text|>", "ids": [0], "tokens": ["<|end_of_text|>"]},
                           "!": {"id": "!", "ids": [1], "tokens": ["!"]}}}},
    "stripping and overlapping tokens": {"added_tokens": [
        dict(SPECIAL, id=0, content="<|end_of_text|>", lstrip=True, rstrip=True),
        dict(SPECIAL, id=1024, content="<|end", lstrip=False, rstrip=True),
        dict(SPECIAL, id=1025, content="the LORD", lstrip=True, rstrip=False)]},
}
TEXTS = [
    "", " ", "\n", "In the beginning", "It's I'LL 'ſ don'T he'D we'vE",
    "\u180e \u180e\u0085x\u2028\r\n\r\n  \t \n 12345 १२३४५ ٣٤ Ⅷ ½ 漢字かな交じり 한국어 עברית ñ e\u0301",
    "\U0001F600\U0001F468\u200d\U0001F469 <|end_of_text|>after  <|end_of_text|> <|end_of_text|><|end_of_text| > <|end",
    "\u1c89\u1c8a\ua7cb \U000105c0\U00011f52 \ufeff\u200b\u00a0\u3000x   y \x00\x01\x7f ... !!!\n\n???\r\r \u0345 \u2160",
    "K\u212a 'K\u017f'S  thus saith the LORD the LORD of hosts.  \u2003the LORD", "  trailing spaces   ", "a/b//\n/\n\n c",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" * 3, "ababababab" * 20, " " * 77 + "x",
]


def fnv1a(ids):
    h = 0xCBF29CE484222325
    for byte in struct.pack("<%di" % len(ids), *ids):
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return "%016x" % h


def merged(target, patch):
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merged(target.get(key), value)
    return target


def main(folder):
    file = json.loads((folder / "tokenizer.json").read_text())
    plain = Tokenizer.from_str(json.dumps(file))
    random.seed(1)
    pools = [range(0x20, 0x7F), range(0x20), range(0x80, 0x3000), [0x20, 0x0A, 0x0D, 0x27, 0x73, 0x74], range(0xE000, 0x110000)]
    texts = TEXTS + ["".join(chr(random.choice(random.choice(pools))) for _ in range(300)) for _ in range(4)]
    books = []
    for line in open(folder / "heldout.jsonl"):
        book = json.loads(line)
        ids = plain.encode(book["text"]).ids
        books.append({"id": book["id"], "count": len(ids), "hash": fnv1a(ids)})
    variants = []
    for name, patch in PATCHES.items():
        t = Tokenizer.from_str(json.dumps(merged(file, patch)))
        variants.append({"name": name, "patch": patch, "ids": [t.encode(x).ids for x in texts]})
    json.dump({"tokenizers": tokenizers.__version__, "books": books, "texts": texts, "variants": variants}, sys.stdout)
    print()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
