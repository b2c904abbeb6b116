#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Converts LongBench Pro (parquet, or its JSON list) to JSON lines for qkgeom capture --jsonl.

Usage: longbench_pro_to_jsonl.py INPUT... OUT.jsonl [--lengths 128k,256k] [options]
INPUT is a parquet or JSON file, or a folder of such files. A line holds id, text and labels: length, language, task,
primary_task, requirement, difficulty, as far as the file has them. The benchmark has 250 documents per length, 125 of
them English (the thesis' table A.3); other counts need --any-count. Needs pyarrow.
"""
import argparse
import collections
import json
import math
import pathlib

from capture_files import ConversionError, run

LENGTHS = ["8k", "16k", "32k", "64k", "128k", "256k"]
PER_LENGTH, ENGLISH = 250, 125  # documents per length, English ones among them: table A.3
LABELS = {"language": "language", "task": "secondary_task", "primary_task": "primary_task",
          "requirement": "contextual_requirement", "difficulty": "difficulty"}


def rows_of(path):
    """Yields the rows of a file as dictionaries."""
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq
            for batch in pq.ParquetFile(path).iter_batches(batch_size=16):
                yield from batch.to_pylist()
        elif path.suffix == ".jsonl":
            with open(path, encoding="utf-8") as f:
                yield from (json.loads(line) for line in f if line.strip())
        else:
            yield from json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:  # pyarrow's errors are ValueErrors
        raise ConversionError(f"{path}: {e}") from e


def files_of(inputs):
    files = []
    for path in map(pathlib.Path, inputs):
        found = sorted(p for s in ("parquet", "jsonl", "json") for p in path.rglob(f"*.{s}")) if path.is_dir() else [path]
        if not found or not path.exists():
            raise ConversionError(f"{path}: there is no parquet or JSON file")
        files += found
    return files


def length_of(row, where):
    """The row's length bin: the benchmark's word, or the bin nearest to a number of tokens."""
    value = row.get("token_length")
    if isinstance(value, str) and value.strip().lower() in LENGTHS:
        return value.strip().lower()
    try:
        tokens = float(value)
        if tokens <= 0:
            raise ValueError
    except (TypeError, ValueError):
        raise ConversionError(f"{where}: token_length must be one of {', '.join(LENGTHS)} or tokens, not {value!r}") from None
    return min(LENGTHS, key=lambda name: abs(math.log(tokens / (1024 * int(name[:-1])))))


def text_of(row, how, where):
    """The document's text: a column, or the benchmark's prompt (context, four line ends, question)."""
    if how == "prompt":
        fields, glue = ["context", "question_nonthinking"], "\n\n\n\n"
    else:
        fields, glue = [how or ("text" if row.get("text") is not None else "context")], ""
    for field in fields:
        if not isinstance(row.get(field), str):
            raise ConversionError(f"{where}: there is no text in column {field}")
    return glue.join(row[field] for field in fields)


def check_counts(counts, english, lengths):
    for length in lengths:
        if counts[length] != PER_LENGTH or english[length] != ENGLISH:
            raise ConversionError(f"length {length} has {counts[length]} documents, {english[length]} of them English; "
                                  f"the benchmark has {PER_LENGTH} and {ENGLISH} (--any-count takes any)")


def convert(args):
    lengths = args.lengths.lower().split(",")
    for length in lengths:
        if length not in LENGTHS:
            raise ConversionError(f"--lengths must name some of {','.join(LENGTHS)}, not {length}")
    counts, english, seen, lines = collections.Counter(), collections.Counter(), set(), []
    for path in files_of(args.inputs):
        for number, row in enumerate(rows_of(path)):
            where = f"{path} row {number}"
            length = length_of(row, where)
            if length not in lengths:
                continue
            name = str(row.get("id", f"{path.stem}-{number}"))
            if name in seen:
                raise ConversionError(f"{where}: id {name} stands twice")
            seen.add(name)
            labels = {"length": length, **{k: row[c] for k, c in LABELS.items() if row.get(c) is not None}}
            counts[length] += 1
            english[length] += str(labels.get("language", "")).lower().startswith("en")
            lines.append(json.dumps({"id": name, "text": text_of(row, args.text, where), "labels": labels},
                                    ensure_ascii=False))
    if not args.any_count:
        check_counts(counts, english, lengths)
    if not lines:
        raise ConversionError("there is no document of these lengths")
    out = pathlib.Path(args.out)
    part = out.with_name(out.name + ".partial")
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    part.replace(out)
    print(", ".join(f"{length}: {counts[length]} documents, {english[length]} English" for length in lengths))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("inputs", nargs="+", metavar="INPUT")
    parser.add_argument("out", metavar="OUT.jsonl")
    parser.add_argument("--lengths", default=",".join(LENGTHS), help="lengths to take, e.g. 128k,256k [all]")
    parser.add_argument("--text", help="column of the text, or 'prompt': context and question [text, else context]")
    parser.add_argument("--any-count", action="store_true", help="take any number of documents")
    convert(parser.parse_args())


if __name__ == "__main__":
    run("longbench_pro_to_jsonl.py", main)
