#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes unicode_additions.hpp: the code points that a class has in the `tokenizers` library but not in Unicode 14.

Debian 12's PCRE2 has Unicode 14; the regular expressions of tokenizer.json expect the tables of the `tokenizers` library.
Classes by script, and those that lost members, are written out whole. Needs `tokenizers`, and a Python whose unicodedata
has version 14.0.0 (Python 3.11).
Usage: make_unicode_additions.py > unicode_additions.hpp
"""
import unicodedata

import tokenizers
from tokenizers import Regex, pre_tokenizers

CLASSES = ["L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po",
           "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs", "Cc", "Cf"]
SCRIPTS = ["Arabic", "Cyrillic", "Devanagari", "Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana", "Latin", "Thai"]
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, POINTS))


def members(name):
    """Code points of the class in the library's regular expressions."""
    outside = set()
    for _, (a, b) in pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed").pre_tokenize_str(TEXT):
        outside.update(POINTS[a:b])
    return set(POINTS) - outside


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def main():
    assert unicodedata.unidata_version == "14.0.0", "needs Unicode 14 tables, not " + unicodedata.unidata_version
    print("// SPDX-License-Identifier: MIT")
    print("// Made by make_unicode_additions.py from tokenizers %s; do not edit.\n#pragma once\n" % tokenizers.__version__)
    print("#include <string_view>\n\nnamespace qkgeom::detail {\n")
    print("/// Ranges, as written inside a character class, that a class of the `tokenizers` library has beyond Unicode 14;")
    print("/// `whole`: all ranges of the class.")
    print("struct class_addition {\n  std::string_view name;\n  bool whole;\n  std::string_view ranges;\n};\n")
    print("inline constexpr class_addition unicode_additions[] = {")
    for name in CLASSES + SCRIPTS:
        old = {c for c in POINTS if unicodedata.category(chr(c)).startswith(name)}
        new = members(name)
        whole = name in SCRIPTS or not old <= new
        if whole:
            old = set()
        added = ["\\\\x{%x}" % a if a == b else "\\\\x{%x}-\\\\x{%x}" % (a, b) for a, b in ranges(new - old)]
        lines, line = [], ""
        for r in added:
            if len(line) + len(r) > 108:
                lines.append(line)
                line = ""
            line += r
        if line:
            lines.append(line)
        print('    {"%s", %s,' % (name, "true" if whole else "false"))
        print("\n".join('     "%s"' % s for s in lines or [""]) + "},")
    print("};\n\n}  // namespace qkgeom::detail")


main()
