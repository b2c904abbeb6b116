# SPDX-License-Identifier: MIT
"""Commands for convert_test.sh.

convert_check.py same A B              checks that captures A and B hold the same manifest and tensors, bit for bit
convert_check.py foreign FOLDER OUT    rewrites FOLDER's parquet files as other programs write them: rows shuffled,
                                       lists of fixed size, none of qkgeom's metadata
convert_check.py spoil FOLDER WHAT     makes one file of FOLDER wrong
convert_check.py benchmark OUT         writes a parquet file with the columns of LongBench Pro and texts of a few words
convert_check.py documents JSONL       checks what longbench_pro_to_jsonl.py wrote for 128k and 256k
"""
import json
import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "convert"))
from capture_files import open_capture


def same(a, b):
    (manifest_a, [tensors_a]), (manifest_b, [tensors_b]) = open_capture(a), open_capture(b)
    assert manifest_a == manifest_b, "the manifests differ"
    assert tensors_a.keys() == tensors_b.keys(), tensors_a.keys() ^ tensors_b.keys()
    for name, (dtype, x) in tensors_a.items():
        other, y = tensors_b[name]
        assert (dtype, x.shape, x.tobytes()) == (other, y.shape, y.tobytes()), name


def foreign(folder, out):
    rng = np.random.default_rng(0)
    for path in pathlib.Path(folder).glob("*/data.parquet"):
        table = pq.read_table(path).drop_columns(["token"]).replace_schema_metadata(None)
        vectors = table.column("vector").combine_chunks()
        d = len(vectors.flatten()) // len(vectors)
        fixed = pa.FixedSizeListArray.from_arrays(vectors.flatten(), d)
        table = table.set_column(table.column_names.index("vector"), "vector", fixed)
        table = table.take(pa.array(rng.permutation(len(table))))
        to = pathlib.Path(out) / path.parent.name
        to.mkdir(parents=True)
        pq.write_table(table, to / "data.parquet")


def spoil(folder, what):
    path = sorted(pathlib.Path(folder).glob("*q/data.parquet"))[-1]
    table = pq.read_table(path)
    if what == "missing_column":
        table = table.drop_columns(["position"])
    elif what == "ragged":
        lists = table.column("vector").to_pylist()
        lists[3] = lists[3][:-1]
        table = table.set_column(table.column_names.index("vector"), "vector", pa.array(lists, pa.list_(pa.float32())))
    elif what == "short":
        table = table.slice(1)
    elif what == "doubles":
        x = [[v + 1e-12 for v in row] for row in table.column("vector").to_pylist()]
        table = table.set_column(table.column_names.index("vector"), "vector", pa.array(x, pa.list_(pa.float64())))
    pq.write_table(table, path)


def benchmark(out):
    rows = [{"id": f"{length}-{language}-{i}", "context": f"text {length} {i}", "question_nonthinking": "why?",
             "token_length": length, "language": language, "primary_task": "T3", "secondary_task": f"T3.{i % 2 + 1}",
             "contextual_requirement": "Full", "difficulty": "Easy"}
            for length in ("8k", "16k", "32k", "64k", "128k", "256k") for language in ("English", "Chinese")
            for i in range(125)]
    pq.write_table(pa.Table.from_pylist(rows), out)


def documents(path):
    lines = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 500 and len({d["id"] for d in lines}) == 500, len(lines)
    assert lines[0] == {"id": "128k-English-0", "text": "text 128k 0", "labels": {
        "length": "128k", "language": "English", "task": "T3.1", "primary_task": "T3", "requirement": "Full",
        "difficulty": "Easy"}}, lines[0]


commands = {"same": same, "foreign": foreign, "spoil": spoil, "benchmark": benchmark, "documents": documents}
commands[sys.argv[1]](*sys.argv[2:])
