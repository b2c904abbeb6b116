#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what the `tokenizers` library makes of random texts with random tokenizers, one JSON object a line: the file, the
texts, the ids (the library's own, special tokens included).

Usage: fuzz_tokenizers.py SEED COUNT   (needs tokenizers)
"""
import json
import os
import random
import sys

os.environ["RUST_BACKTRACE"] = "0"  # its panics are expected below, and their traces slow
from tokenizers import Tokenizer

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
          r"|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}"
          r"\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
REGEXES = [LLAMA3, TEKKEN, r"\p{N}", r"\d{2}", r"\s+$", "^a", "b*", "(?=a)", r"[\p{Mn}\p{Han}]+", r"(?<=a)b|\u00e9", r"a{,2}b", r"[^\S ]",
           r"(?i)AB|k", "[^a-c ]++", r"\P{L}+", r"\v|\x41|\x{1F600}", r".\z", r"[]a]+", r"x{a|\p{Latin}{3}"]
STRINGS = [" ", "a", "ab", "\u2581", "", "\u00e9", "  "]
POOLS = [list(map(ord, "abcAB")), [0x20], [0x20, 0x0A, 0x0D, 0x09], list(map(ord, "ab <s>\u2581")), range(0x20, 0x7F), range(0x20),
         range(0x80, 0x600), range(0x300, 0x370), [0xE9, 0x65, 0x301, 0x323, 0x327, 0x41, 0x30A, 0x130, 0x3A3, 0x17F, 0x212A],
         range(0x900, 0xE00), range(0x1100, 0x1200), range(0xAC00, 0xD7A4), range(0x1E00, 0x2100), range(0x2000, 0x2070), range(0x3000, 0xA000),
         range(0xE000, 0x10000), range(0x10000, 0x1E000), range(0x1F300, 0x1FB00), range(0x20000, 0x30000), range(0xE0000, 0x110000)]


def byte_alphabet():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return [chr(b) if b in plain else chr(256 + others.index(b)) for b in range(256)]


def random_text(r):
    text = ""
    for _ in range(r.choice([1, 2, 3, 8, 20])):
        pool = r.choice(POOLS)
        text += "".join(chr(r.choice(pool)) for _ in range(r.choice([1, 2, 5, 20, 60])))
        text += r.choice(["", "", "<s>", " </s> ", "  ", "a\u0301", "\n\n", "abab" * 20, "it's", "\u2581\u2581"])
    return text


def model(r, byte_level):
    vocab = {}

    def add(token):
        vocab.setdefault(token, len(vocab))

    for t in ("<unk>", "<s>", "</s>"):
        add(t)
    alphabet = byte_alphabet() if byte_level else list("abcABst \u2581'\n\u00e9\u0301\u4e2d\U0001F600<>")
    if not byte_level or r.random() < 0.2:
        keep = r.choice([0.0, 0.97, 1.0])
        for b in range(256):
            if r.random() < keep:
                add("<0x%02X>" % b)
    for c in alphabet:
        if byte_level or r.random() < 0.9:
            add(c)
    characters = [c for c in alphabet if c in vocab]
    likely = [c for c in (list("abAB\u0120st'") if byte_level else list("ab\u2581AB ")) if c in vocab]
    tokens, merges = list(characters), []
    for _ in range(r.choice([0, 10, 100, 400])):
        left, right = (r.choice(tokens[-60:] if r.random() < 0.3 else likely or tokens) for _ in range(2))
        if r.random() < 0.02:
            left = r.choice(list(vocab))
        if len(left + right) > 24 or [left, right] in merges:
            continue
        add(left + right)
        tokens.append(left + right)
        merges.append([left, right])
    if r.random() < 0.5:
        r.shuffle(merges)
    if r.random() < 0.5 and all(" " not in a + b for a, b in merges):
        merges = ["%s %s" % (a, b) for a, b in merges]
    return {"type": "BPE", "dropout": None, "unk_token": r.choice([None, "<unk>", "<unk>"]), "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": r.random() < 0.5, "byte_fallback": r.random() < 0.6,
            "ignore_merges": r.random() < 0.5, "vocab": vocab, "merges": merges}


def pattern(r):
    return {"Regex": r.choice(REGEXES)} if r.random() < 0.6 else {"String": r.choice(STRINGS)}


def replaced(r):
    """A pattern for Replace that does not match nothing before the first character. The library gives no place in the text to what
    it puts there; a later NFC or ByteLevel then repeats it or panics. The known families replace spaces alone."""
    kind, text = pattern(r).popitem()
    return {"Regex": r"(?!\A)" + text} if text in ("b*", "(?=a)", "") else {kind: text}


def normalizer(r):
    kind = r.choice(["NFC", "NFC", "NFD", "Lowercase", "Prepend", "Replace", "Replace", "Strip"])
    return {"NFC": {"type": "NFC"}, "NFD": {"type": "NFD"}, "Lowercase": {"type": "Lowercase"},
            "Prepend": {"type": "Prepend", "prepend": r.choice(["\u2581", "ab"])},
            "Replace": {"type": "Replace", "pattern": replaced(r), "content": r.choice(["\u2581", "", "ba"])}
            if r.random() < 0.5 else {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
            "Strip": {"type": "Strip", "strip_left": r.random() < 0.5, "strip_right": r.random() < 0.5}}[kind]


def split(r):
    return {"type": "Split", "pattern": pattern(r), "invert": r.random() < 0.3,
            "behavior": r.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])}


def pre_tokenizer(r):
    kind = r.choice(["Split", "Split", "Digits", "Metaspace", "WhitespaceSplit"])
    return {"Split": split(r), "Digits": {"type": "Digits", "individual_digits": r.random() < 0.5},
            "Metaspace": {"type": "Metaspace", "replacement": "\u2581", "split": r.random() < 0.5,
                          "prepend_scheme": r.choice(["always", "first", "never"])},
            "WhitespaceSplit": {"type": "WhitespaceSplit"}}[kind]


def sequence(r, name, items):
    if not items:
        return None
    return items[0] if len(items) == 1 and r.random() < 0.5 else {"type": "Sequence", name: items}


def added_tokens(r, vocab):
    out, fresh = [], len(vocab)
    contents = ["<s>", "</s>"] + r.sample(["  ", "   ", " ", "ab", "a", "<s>a", "\u00e9", "e\u0301", "AB", "\u2581\u2581", "\u4e2d", "\U0001F600"],
                                          r.choice([0, 1, 4]))
    for content in contents:
        if r.random() < 0.1:
            continue
        token_id = vocab.get(content)
        if token_id is None:
            token_id, fresh = fresh, fresh + 1
        plain = r.random() < 0.6
        out.append({"id": token_id, "content": content, "single_word": not plain and r.random() < 0.4,
                    "lstrip": not plain and r.random() < 0.4, "rstrip": not plain and r.random() < 0.4,
                    "normalized": r.random() < 0.5, "special": r.random() < 0.5})
    return sorted(out, key=lambda t: t["id"])


def post_processor(r, vocab):
    def template(before, after):
        items = [{"SpecialToken": {"id": t, "type_id": 0}} for t in before] + [{"Sequence": {"id": "A", "type_id": 0}}]
        return {"type": "TemplateProcessing", "single": items + [{"SpecialToken": {"id": t, "type_id": 0}} for t in after], "pair": [],
                "special_tokens": {t: {"id": t, "ids": [vocab[t]], "tokens": [t]} for t in set(before + after)}}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    choices = [None, byte_level, template(["<s>"], []), template(["<s>", "<unk>"], ["</s>"])]
    one = r.choice(choices)
    return one if r.random() < 0.7 else {"type": "Sequence", "processors": [p for p in (one, byte_level) if p]}


def tokenizer_file(r):
    byte_level = r.random() < 0.5
    m = model(r, byte_level)
    steps = [pre_tokenizer(r) for _ in range(r.choice([0, 0, 1, 1, 2, 3]))]
    if byte_level:
        steps.append({"type": "ByteLevel", "add_prefix_space": r.random() < 0.3, "trim_offsets": True, "use_regex": r.random() < 0.5})
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(r, m["vocab"]),
            "normalizer": sequence(r, "normalizers", [normalizer(r) for _ in range(r.choice([0, 0, 1, 1, 2, 3]))]),
            "pre_tokenizer": sequence(r, "pretokenizers", steps), "post_processor": post_processor(r, m["vocab"]), "decoder": None,
            "model": m}


def encoded(tokenizer, text):
    """The ids, or None where the library itself gives up."""
    try:
        return tokenizer.encode(text).ids
    except BaseException as e:  # its panics are no Exception
        if type(e).__name__ != "PanicException":
            raise
        return None


def main(seed, count):
    for number in range(count):
        r = random.Random(seed * 1000003 + number)
        file = tokenizer_file(r)
        n = Tokenizer.from_str(json.dumps(file)).normalizer
        contents = [n.normalize_str(a["content"]) if n and a["normalized"] else a["content"] for a in file["added_tokens"]]
        if "" in contents or len(set(contents)) < len(contents):
            continue  # the first is refused; of two that become the same, the library finds now one, now the other
        t = Tokenizer.from_str(json.dumps(file))
        texts = [random_text(r) for _ in range(12)] + [""]
        print(json.dumps({"number": number, "file": file, "texts": texts, "ids": [encoded(t, x) for x in texts]}))


main(int(sys.argv[1]), int(sys.argv[2]))
