#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes unicode_additions.hpp: what the `tokenizers` library knows of Unicode beyond version 15.0, which every ICU from 72 on has.

An ICU is asked about characters of Unicode 15.0 alone, so that a later one answers the same. A character whose class an ICU has
otherwise (Unicode 16 and 17 changed one each) is written out too: name a late ICU besides the oldest.
Usage: make_unicode_additions.py LIBICUUC.so.72 [LIBICUUC.so.VERSION ...] > unicode_additions.hpp   (needs tokenizers)
"""
import ctypes
import re
import sys

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CLASSES = "Cc Cf Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()
SCRIPTS = "Arabic Cyrillic Devanagari Greek Han Hangul Hebrew Hiragana Katakana Latin Thai".split()
ICU_CLASSES = "Cn Lu Ll Lt Lm Lo Mn Me Mc Nd Nl No Zs Zl Zp Cc Cf Co Cs Pd Ps Pe Pc Po Sm Sc Sk So Pi Pf".split()  # UCharCategory
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, POINTS))


class Icu:
    def __init__(self, path):
        self.library, self.version = ctypes.CDLL(path), re.search(r"\.so\.(\d+)", path)[1]
        age = (ctypes.c_uint8 * 4)()

        def is_old(c):
            self.call("u_charAge", c, age)
            return (0, 0) < tuple(age[:2]) <= (15, 0)

        self.old = [c for c in POINTS if is_old(c)]

    def call(self, name, *arguments):
        return getattr(self.library, name + "_" + self.version)(*arguments)

    def classes(self):
        return {c: ICU_CLASSES[self.call("u_charType", c)] for c in self.old}

    def scripts(self):
        name, status = getattr(self.library, "uscript_getName_" + self.version), ctypes.c_int(0)
        name.restype = ctypes.c_char_p
        return {c: name(self.call("uscript_getScript", c, ctypes.byref(status))).decode() for c in self.old}

    def lower_case(self):
        return {c: self.call("u_tolower", c) for c in self.old}


def members(name):
    """Characters of the class in the library's regular expressions."""
    outside = set()
    for _, (a, b) in pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed").pre_tokenize_str(TEXT):
        outside.update(POINTS[a:b])
    return set(POINTS) - outside


def numerals():
    """Characters at which the Digits pre-tokenizer cuts."""
    split = pre_tokenizers.Digits(individual_digits=True)
    text = "".join("a" + chr(c) for c in POINTS)
    alone = {a for s, (a, b) in split.pre_tokenize_str(text) if b == a + 1 and a % 2 == 1}
    return {c for i, c in enumerate(POINTS) if 2 * i + 1 in alone}


def lower_case():
    lower = {c: normalizers.Lowercase().normalize_str(chr(c)) for c in POINTS}
    assert {c for c in POINTS if len(lower[c]) > 1} == {0x130} and lower.pop(0x130) == "i\u0307"
    return {c: ord(d) for c, d in lower.items()}


def differing(library, icus):
    """Characters to which an ICU gives another value, or, being younger than Unicode 15.0, none."""
    none = [c for c in library if any(icu.get(c) != library[c] for icu in icus)]
    return set(none) | {c for icu in icus for c, value in icu.items() if c not in library and value in CLASSES + SCRIPTS}


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def pattern(points):
    """The parts of a pattern of icu::UnicodeSet, as they stand in a string of C++."""
    def shown(c):
        return "\\\\u%04x" % c if c < 0x10000 else "\\\\U%08x" % c
    return ["["] + [shown(a) if a == b else shown(a) + "-" + shown(b) for a, b in ranges(points)] + ["]"]


def print_row(name, points):
    lines, line = [], '    {"%s", "' % name
    for item in pattern(points):
        if len(line) + len(item) > 116:
            lines.append(line + '"')
            line = '     "'
        line += item
    print("\n".join(lines + [line + '"},']))


def main(paths):
    icus = [Icu(path) for path in paths]
    classes = {c: name for name in CLASSES for c in members(name)}
    scripts = {c: name for name in SCRIPTS for c in members(name)}
    print("// SPDX-License-Identifier: MIT")
    print("// Made by make_unicode_additions.py from tokenizers %s and ICU %s; do not edit." %
          (tokenizers.__version__, ", ".join(icu.version for icu in icus)))
    print("#pragma once\n\n/// Properties of characters that the `tokenizers` library knows and ICU may not: sets are patterns of icu::UnicodeSet.")
    print("namespace qkgeom::detail {\n\nstruct named_set {\n  const char *name, *members;\n};\n")
    for title, table, values, known in (
            ("General categories: the characters beyond Unicode 15.0, and those that changed.", "category_additions", classes,
             [icu.classes() for icu in icus]), ("Scripts: the characters beyond Unicode 15.0.", "script_additions", scripts,
                                                [icu.scripts() for icu in icus])):
        print("/// %s\ninline constexpr named_set %s[] = {" % (title, table))
        found = differing(values, known)
        assert all(c in values for c in found)
        for name in CLASSES if values is classes else SCRIPTS:
            print_row(name, {c for c in found if values[c] == name})
        print("};\n")
    more = numerals() - {c for c, name in classes.items() if name[0] == "N"}
    print("/// Numerals of the Digits pre-tokenizer that no regular expression counts as one.")
    print('inline constexpr const char* more_numerals = "%s";' % "".join(pattern(more)))
    print("\n/// Lower case of characters beyond Unicode 15.0: adds `difference` to first .. last.")
    print("struct case_range {\n  char32_t first, last;\n  int difference;\n};\ninline constexpr case_range lower_additions[] = {")
    lower, rows = lower_case(), []
    for c in sorted(differing(lower, [icu.lower_case() for icu in icus])):
        if lower[c] == c:
            continue
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == lower[c] - c:
            rows[-1][1] = c
        else:
            rows.append([c, c, lower[c] - c])
    print("\n".join("    {0x%x, 0x%x, %d}," % tuple(r) for r in rows) + "\n};\n\n}  // namespace qkgeom::detail")


main(sys.argv[1:])
