#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bytes a CPU second of the `tokenizers` library (Rust), for bench/tokenizers.sh.

Usage: tokenizers_library.py TEXTS TOKENIZER...   (needs tokenizers)

TEXTS is what `tokenizer_bench --write` wrote: NAME-NUMBER.txt. Each TOKENIZER is a tokenizer.json. Texts go one at a time
through `encode_batch_fast`, the library's call that keeps no offsets; the fastest of three rounds counts (of one where it takes
more than five seconds). Prints {"SCHEME/NAME": {"bytes_per_s": .., "ids": ..}} and the version.
"""
import json
import os
import pathlib
import sys
import time

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RUST_BACKTRACE": "0"}
import tokenizers


def name_of(path):
    return "bundled" if path.name == "tokenizer.json" else path.stem


def count(tokenizer, documents):
    """Ids of all documents; None where the library panics."""
    try:
        return sum(len(tokenizer.encode_batch_fast([d])[0].ids) for d in documents)
    except BaseException as e:  # its panics are no Exception
        if type(e).__name__ != "PanicException":
            raise
        return None


def main(folder, files):
    texts = {}
    for path in sorted(folder.glob("*.txt")):
        texts.setdefault(path.stem.rsplit("-", 1)[0], []).append(path.read_bytes().decode())
    out = {"version": tokenizers.__version__}
    for path in files:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        for name, documents in texts.items():
            size, best = sum(len(d.encode()) for d in documents), 0
            for _ in range(3):
                start = time.process_time()
                ids = count(tokenizer, documents)
                seconds = time.process_time() - start
                best = max(best, size / seconds)
                if seconds > 1 or ids is None:
                    break
            out[f"{name_of(path)}/{name}"] = {"bytes_per_s": best, "ids": ids} if ids is not None else None
    print(json.dumps(out))


main(pathlib.Path(sys.argv[1]), [pathlib.Path(f) for f in sys.argv[2:]])
