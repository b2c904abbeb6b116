#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/tokenizers/: small tokenizers of each scheme, trained here, nasty texts, and what the `tokenizers` library
makes of them (SCHEME.json, texts.json, ids.json).

Usage: make_tokenizers.py EXAMPLES/data/kjv-smollm3/heldout.jsonl OUT_FOLDER   (needs tokenizers)
"""
import json
import pathlib
import random
import sys

import tokenizers
from make_token_ids import TEKKEN
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
          r"|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
VOCABULARY = 1100
BYTES = ["<0x%02X>" % b for b in range(256)]
OTHER_TEXTS = [
    "\u4e2d\u6587\u6587\u672c\u548c\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\uff0c\u6ca1\u6709\u7a7a\u683c\u3002" * 3,
    "\u0646\u0635 \u0639\u0631\u0628\u064a \u0637\u0648\u064a\u0644 \u0645\u0639 \u062a\u0634\u0643\u064a\u0644 \u0628\u0650\u0633\u0652\u0645\u0650",
    "\u0420\u0443\u0441\u0441\u043a\u0438\u0439 \u0442\u0435\u043a\u0441\u0442, \u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac, \ud55c\uad6d\uc5b4, \u0939\u093f\u0928\u094d\u0926\u0940",
    "def f(x):\n    if x > 0:\n        return [i ** 2 for i in range(x)]  # squares\n\treturn {'a': 1.5e-3}\r\n",
    "#include <vector>\nint main() { std::vector<int> v{1, 2, 3}; return v.size() != 3; }\n",
    "\U0001F468\u200d\U0001F469\u200d\U0001F467\u200d\U0001F466 \U0001F1E9\U0001F1EA\U0001F44D\U0001F3FD \u2764\ufe0f 1\ufe0f\u20e3",
    "cafe\u0301 e\u0323\u0301 \u212b \ufb01 \u1e9b\u0323 \u0958 \uac00\u1100\u1161\u11a8 \u0344 \u1100\u1161",
]
NASTY = OTHER_TEXTS + [
    "", " ", "\n", "  \n\n \t\r\n   x", " " * 300 + "end", "\t" * 70 + "\n" * 70, "word" + " " * 17 + "word", "<s>", "a<s>b </s> c<s>",
    "<|im_start|>user\nhi<|im_end|>\n<bos><eos><pad>[INST] x [/INST]<unk> <0x41><0x0A>", "\u2581already \u2581\u2581 here", "It's I'LL we'VE 'twas 'D",
    "1234567890 3.14159 1,000,000 \u0661\u0662\u0663 \u2167 \u00bd \u00b2", "HELLO World mIxEd CamelCaseString XMLHttpRequest \u01c5 \u02b0",
    "a" * 500, "ab" * 300, "THE LORD " * 60, "\u00e9" * 200, "\u4e00" * 400, "\U0001F600" * 100, "a\u0301" * 200, "\u0301" * 90, "x" + "\u0323\u0301" * 60,
    "\u1c89\u1c8a\ua7cb \U000105c0\U00011f52 \ufeff\u200b\u00a0\u3000x \u180e\u2028\u2029\u0085 \x00\x01\x7f\x0b\x0c \U0010ffff\ufffd\ue000 \u0378",
    "\u0130stanbul \u017f \u212a 'K\u017f'S \u03a3\u03c3\u03c2 \u00df\u1e9e", "trailing   ", "/a//b/\n/\n\n// \r\r\r", "\u2603\ufe0f\u20dd!!!???...---===___",
]
KINDS = [range(0x20), range(0x20, 0x7F), range(0x80, 0x3000), range(0x3000, 0xD800), range(0xE000, 0x10000), range(0x10000, 0x20000),
         range(0x20000, 0x40000), range(0xE0000, 0x110000), [0x20, 0x0A, 0x0D, 0x27, 0x73, 0x74, 0x2581]]


def texts():
    r = random.Random(7)
    mixed = ["".join(chr(r.choice(r.choice(KINDS))) for _ in range(400)) for _ in range(6)]
    planes = ["".join(chr(c) for c in range(p << 16, (p + 1) << 16, 257) if not 0xD800 <= c < 0xE000) for p in range(17)]
    return NASTY + mixed + planes


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, True, False)])


def trained(corpus, pre, specials, norm=None, alphabet=None, model=None):
    t = Tokenizer(models.BPE(**(model or {})))
    if pre:
        t.pre_tokenizer = pre
    if norm:
        t.normalizer = norm
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=specials, show_progress=False,
                                                      initial_alphabet=alphabet or [], max_token_length=24))
    return json.loads(t.to_str())


def keep_specials(file, specials):
    """Of the tokens that training wants first only these are added tokens; the others (bytes) are plain words."""
    file["added_tokens"] = [t for t in file["added_tokens"] if t["content"] in specials]
    return file


def template(file, *names):
    ids = file["model"]["vocab"]
    file["post_processor"] = {
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": n, "type_id": 0}} for n in names] + [{"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {n: {"id": n, "ids": [ids[n]], "tokens": [n]} for n in names}}
    return file


def merges_from_ranks(file, first):
    """Merges as they are recovered from a vocabulary that has ranks only: every way to make a token, in the order of ids."""
    vocab = file["model"]["vocab"]
    merges = []
    for token, rank in sorted(vocab.items(), key=lambda i: i[1]):
        ways = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in vocab and token[i:] in vocab] if rank >= first else []
        merges += sorted(ways, key=lambda w: (vocab[w[0]], vocab[w[1]]))
    file["model"]["merges"] = [list(m) for m in merges]
    return file


def schemes(corpus):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    out = {}
    out["llama3"] = template(trained(corpus, split(LLAMA3), ["<|begin_of_text|>", "<|end_of_text|>"], None, alphabet), "<|begin_of_text|>")
    out["llama3"]["model"]["ignore_merges"] = True
    out["llama3"]["post_processor"] = {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, out["llama3"]["post_processor"]]}
    out["qwen"] = trained(corpus, split(QWEN), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizers.NFC(), alphabet)
    out["tekken"] = merges_from_ranks(trained(corpus, split(TEKKEN), ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], None, alphabet), 5)
    out["tekken"]["model"]["ignore_merges"] = True
    out["neox"] = trained(corpus, pre_tokenizers.ByteLevel(False), ["<|endoftext|>"], normalizers.NFC(), alphabet)
    size = len(out["neox"]["model"]["vocab"])
    out["neox"]["added_tokens"] += [{"id": size + n - 2, "content": " " * n, "single_word": False, "lstrip": False, "rstrip": False,
                                     "normalized": True, "special": False} for n in range(2, 25)]
    sentencepiece = {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
    first = ["<unk>", "<s>", "</s>"]
    metaspace = pre_tokenizers.Metaspace("\u2581", "first", True)
    out["mistral"] = template(keep_specials(trained(corpus, metaspace, first + BYTES, None, None, sentencepiece), first), "<s>")
    out["mistral"]["pre_tokenizer"]["split"] = False
    legacy = json.loads(json.dumps(out["mistral"]))
    legacy["pre_tokenizer"] = None
    legacy["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                               {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    out["mistral-legacy"] = legacy
    first = ["<pad>", "<eos>", "<bos>", "<unk>"]
    phrases = [p for text in corpus for p in text.split(",")]
    gemma = keep_specials(trained(phrases, pre_tokenizers.Split(Regex(r"\S+ +\S+|\s+|\S+"), "isolated"), first + BYTES,
                                  normalizers.Replace(" ", "\u2581"), None, sentencepiece), first)
    gemma["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    out["gemma3"] = template(gemma, "<bos>")
    return out


def main(books, out):
    out.mkdir(exist_ok=True)
    corpus = [json.loads(line)["text"] for line in open(books)]
    corpus = [line for text in corpus[:4] for line in text.split("\n")][:3000] + OTHER_TEXTS * 20
    ids = {"tokenizers": tokenizers.__version__, "ids": {}}
    for name, file in schemes(corpus).items():
        path = out / (name + ".json")
        path.write_text(json.dumps(file, ensure_ascii=True, separators=(",", ":")) + "\n")
        t = Tokenizer.from_file(str(path))
        ids["ids"][name] = [t.encode(x).ids for x in texts()]
    (out / "ids.json").write_text(json.dumps(ids, separators=(",", ":")) + "\n")
    (out / "texts.json").write_text(json.dumps(texts(), separators=(",", ":")) + "\n")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
