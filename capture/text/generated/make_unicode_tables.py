#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes unicode_tables.cpp: normal forms, lower case, numerals and word characters as the `tokenizers` library has them.

The library itself is asked, since its normal forms have an older version of Unicode than its regular expressions.
Combining classes are recovered by their order alone, which is all that normal forms need: two marks are swapped exactly
if the second one's class is lower and not 0.
Usage: make_unicode_tables.py > unicode_tables.cpp   (needs tokenizers)
"""
import unicodedata

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
NFC, NFD, LOWER = normalizers.NFC(), normalizers.NFD(), normalizers.Lowercase()
HANGUL = range(0xAC00, 0xD7A4)
LOW, HIGH = 0x334, 0x345  # marks of the lowest and the highest combining class


def swapped(pairs):
    """Whether normal form D swaps each pair of characters."""
    text = NFD.normalize_str("".join("a" + chr(x) + chr(y) for x, y in pairs))
    parts = text.split("a")[1:]
    assert len(parts) == len(pairs)
    return [p == chr(y) + chr(x) and x != y for p, (x, y) in zip(parts, pairs)]


def combining_classes():
    whole = [c for c in POINTS if c != ord("a") and NFD.normalize_str(chr(c)) == chr(c)]
    marks = [c for c, x, y in zip(whole, swapped([(HIGH, c) for c in whole]), swapped([(c, LOW) for c in whole])) if x or y]
    reference = {}  # one mark of each class
    for c in marks:
        reference.setdefault(unicodedata.combining(chr(c)), c)
    ranks = {}
    for c in marks:
        keys = sorted(reference)
        before = swapped([(c, reference[k]) for k in keys])
        after = swapped([(reference[k], c) for k in keys])
        equal = [k for k, x, y in zip(keys, before, after) if not x and not y]
        assert len(equal) == 1, (hex(c), equal)
        ranks[c] = equal[0]
    return ranks


def decompositions():
    """Canonical one-step mappings: those that normal form C undoes, and the others."""
    full = {c: NFD.normalize_str(chr(c)) for c in POINTS if c not in HANGUL}
    full = {c: d for c, d in full.items() if d != chr(c)}
    inverse = {}
    for c in sorted(full, key=lambda c: (NFC.normalize_str(chr(c)) != chr(c), c)):
        inverse.setdefault(full[c], c)
    composed, others = [], []
    for c, d in sorted(full.items()):
        whole = NFC.normalize_str(chr(c)) == chr(c)
        first = ord(d[0]) if len(d) <= 2 else inverse[d[:-1]]
        second = ord(d[-1]) if len(d) > 1 else 0
        if whole:
            assert second and NFC.normalize_str(chr(first) + chr(second)) == chr(c), hex(c)
        (composed if whole else others).append((c, first, second))
    return composed, others


def lower_case():
    """Ranges (first, last, step, difference); U+0130 alone becomes two characters."""
    out = []
    for c in POINTS:
        d = LOWER.normalize_str(chr(c))
        if d == chr(c):
            continue
        if len(d) > 1:
            assert c == 0x130 and d == "i\u0307"
            continue
        diff = ord(d) - c
        if out and out[-1][3] == diff and c - out[-1][1] <= 2 and (out[-1][2] in (0, c - out[-1][1])):
            out[-1] = (out[-1][0], c, c - out[-1][1], diff)
        else:
            out.append((c, c, 0, diff))
    return [(a, b, s or 1, d) for a, b, s, d in out]


def numerals():
    split = pre_tokenizers.Digits(individual_digits=True)
    text = "".join("a" + chr(c) for c in POINTS)
    alone = {a for s, (a, b) in split.pre_tokenize_str(text) if b == a + 1 and a % 2 == 1}
    return [c for i, c in enumerate(POINTS) if 2 * i + 1 in alone]


def word_characters():
    """Characters beside which a single-word token is not found."""
    t = Tokenizer(models.BPE(vocab={}, merges=[]))
    t.add_tokens([AddedToken("\ue000", single_word=True, normalized=False)])
    points = [c for c in POINTS if c != 0xE000]
    text = "".join("\ue000" + chr(c) + " " for c in points)
    found = {a for a, b in t.encode(text).offsets}
    return [c for i, c in enumerate(points) if 3 * i not in found]


def ranges(points):
    out = []
    for c in points:
        if out and out[-1][1] == c - 1:
            out[-1] = (out[-1][0], c)
        else:
            out.append((c, c))
    return out


def table(kind, name, rows):
    print("const std::array<%s, %d> %s{{" % (kind, len(rows), name))
    line = "   "
    for row in rows:
        item = " {" + ", ".join(str(v) if abs(v) < 10 else ("-" if v < 0 else "") + "0x%x" % abs(v) for v in row) + "},"
        if len(line) + len(item) > 120:
            print(line)
            line = "   "
        line += item
    print(line + "\n}};\n")
    return "extern const std::array<%s, %d> %s;" % (kind, len(rows), name)


def main():
    classes = combining_classes()
    class_rows = []
    for c, k in sorted(classes.items()):
        if class_rows and class_rows[-1][1] == c - 1 and class_rows[-1][2] == k:
            class_rows[-1] = (class_rows[-1][0], c, k)
        else:
            class_rows.append((c, c, k))
    composed, others = decompositions()
    print("// SPDX-License-Identifier: MIT")
    print("// Made by make_unicode_tables.py from tokenizers %s; do not edit." % tokenizers.__version__)
    print('#include "capture/text/generated/unicode_tables.hpp"\n\nnamespace qkgeom::detail {\nnamespace {\n')
    table("combining_range", "combining_rows", class_rows)
    table("canonical_pair", "composed_rows", composed)
    table("canonical_pair", "decomposed_rows", others)
    table("case_range", "lower_rows", lower_case())
    table("point_range", "numeral_rows", ranges(numerals()))
    table("point_range", "word_rows", ranges(word_characters()))
    print("}  // namespace\n")
    for kind, name, rows in (("combining_range", "combining_ranges", "combining"), ("canonical_pair", "composed_pairs", "composed"),
                             ("canonical_pair", "decomposed_pairs", "decomposed"), ("case_range", "lower_ranges", "lower"),
                             ("point_range", "numeral_ranges", "numeral"), ("point_range", "word_ranges", "word")):
        print("const std::span<const %s> %s{%s_rows};" % (kind, name, rows))
    print("\n}  // namespace qkgeom::detail")


main()
