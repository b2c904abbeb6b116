# SPDX-License-Identifier: MIT
"""What convert_test.sh asks of Python.

convert_check.py same A B              captures A and B hold the same manifest and tensors, bit for bit
convert_check.py foreign FOLDER OUT    FOLDER's parquet files as another program writes them: rows in disorder, lists of
                                       fixed size, no metadata of ours; all heads numbered from 0
convert_check.py spoil FOLDER WHAT     one file of FOLDER made wrong
"""
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


{"same": same, "foreign": foreign, "spoil": spoil}[sys.argv[1]](*sys.argv[2:])
