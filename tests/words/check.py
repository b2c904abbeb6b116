#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Refuse the words that docs/glossary.md retired, in the code and pages of the project.

Usage: check.py SOURCE_DIR     exit status 1 and one line per place, else one line of summary
       check.py --self-test    texts with and without such words, each judged as it should be
"""
import pathlib
import re
import sys

CODE = {".hpp", ".cpp", ".cuh", ".cu"}
TEXT = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|^[ \t]*#[ \t]*include[^\n]*', re.S | re.M)

# word -> (what it is called now, in which files); matched against code without its string literals, which hold the names
# of files, columns and options, and against pages as they are.
RETIRED = [
    (re.compile(r"\b(score_|tile_|observed_|drawn_)?laws?(_of|_keys|_at|_place)?\b", re.I), "score distribution", CODE),
    (re.compile(r"\bscore laws?\b|\ba law (admits|draws|takes)\b", re.I), "score distribution", {".md"}),
    (re.compile(r"\b[qk]_example\b|\bcaptured_example\b|\bacross_examples\b|\bexamples_weigh_same\b"), "document", CODE),
    (re.compile(r"\b(thrust|cuda|host|fibre|tile)_machine\b|\bMachine\b|\bmachine_type\b"), "device", CODE),
    (re.compile(r"\b[Ee]ngines?(_type|_)?\b|\bhost_engine\b"), "launcher", CODE),
    (re.compile(r"\bthrust_fused\w*|\bfused_(pairs|operands|observed|context)\b"), "tile program", CODE | {".md"}),
    (re.compile(r"\bcls\b"), "head_class", CODE | {".md"}),
    (re.compile(r"\bpair_parts?\b|\bpart_(profile|sum|keys)\b|\bheatmap_parts\b"), "pair term", CODE | {".md"}),
    (re.compile(r"\bdrop_parts?\b"), "cause", CODE),
    (re.compile(r"\bkey_groups(_of)?\b(?!\.csv)|\bgroup_keys\b"), "keys_by_document, shared_keys", CODE),
    (re.compile(r"\bha(s|ve) a say\b|\bis told\b|\bare told\b|\bsays? of\b", re.I), "plain words: subject, verb, object",
     CODE | {".md"}),
]
# The glossary names them; the emulated GPU runs PTX on a machine of its own; the thesis' words stay the thesis'.
LEFT_OUT = ("docs/glossary.md", "tests/emulated_cuda/", "tests/words/", "examples/thesis/data/", "tests/data/")


def judge(name, text):
    """Lines `name:line: word ...` for each retired word of a file."""
    suffix = pathlib.PurePath(name).suffix
    if suffix in CODE:
        text = TEXT.sub(lambda m: '""' + "\n" * m.group().count("\n"), text)
    found = []
    for word, now, suffixes in RETIRED:
        if suffix in suffixes:
            for m in word.finditer(text):
                found.append(f"{name}:{text.count(chr(10), 0, m.start()) + 1}: '{m.group()}' is retired: {now}")
    return found


def self_test():
    cases = [
        ("a.hpp", "struct score_law {};", 1), ("a.hpp", "/// A law of a bucket.", 1), ("a.hpp", 'x = "law";', 0),
        ("a.md", "Keys that a law admits", 1), ("a.md", "the normal law", 0), ("a.cpp", "int flaw;", 0),
        ("a.cpp", '#include "examples/law.hpp"\nv.q_example = 1;', 1), ("a.cpp", 'tensor("q_example")', 0),
        ("a.cuh", "template <class Machine>\nstruct s { Engine e; };", 2), ("a.md", "this machine's CPU", 0),
        ("a.md", "`thrust_fused_pairs.hpp`", 1), ("a.cpp", "pca.cls", 1), ("a.hpp", "pair_part p; drop_parts d;", 2),
        ("a.hpp", "key_groups_of(x); group_keys g;", 2),
        ("a.hpp", "// a document that has a say", 1), ("a.hpp", 'fail(R"(a law)"); law();', 1),
    ]
    return [f"{name}: {text!r}: found {judge(name, text)}, expected {n}"
            for name, text, n in cases if len(judge(name, text)) != n]


def main():
    if sys.argv[1:] == ["--self-test"]:
        failures = self_test()
        print("\n".join(failures) or "texts judged as they should be")
        return bool(failures)
    source = pathlib.Path(sys.argv[1])
    found, files = [], 0
    pages = [source / "README.md", *(source / "docs").rglob("*.md")]
    for path in pages + [p for top in ("include", "capture", "examples", "bench", "tests")
                         for p in sorted((source / top).rglob("*"))]:
        name = path.relative_to(source).as_posix()
        if path.suffix in CODE | {".md"} and not name.startswith(LEFT_OUT):
            files += 1
            found += judge(name, path.read_text())
    print("\n".join(found) or f"{files} files use the words of docs/glossary.md")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
