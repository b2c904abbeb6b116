#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Converts a capture to the parquet folders that attention-plasticity reads: OUT/l{LL}h{HH}{q|k}/data.parquet with the
columns bucket, example_id, position (int32), vector (list of f32) and sliding_window (nullable), and token if the capture
holds token ids.

Usage: capture_to_parquet.py CAPTURE OUT
Lossless for bf16, f16 and f32. The parquet metadata hold the manifest, so that parquet_to_capture.py restores the
capture. Needs numpy and pyarrow.
"""
import argparse
import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capture_files import ConversionError, bucket_of, open_capture, run, widen


def side_of(shards, layer, side):
    """One side of a layer: dtype, rows (n, heads, d) of each shard, the order of all rows by (document, position), and in
    that order the columns position, example_id and, if the capture has it, token."""
    name, found = f"layer.{layer}.{side}", []
    for tensors in shards:
        try:
            found.append([tensors[name], tensors[name + ".position"], tensors[name + ".example"]])
        except KeyError as e:
            raise ConversionError(f"the capture has no tensor {e.args[0]}") from None
    columns = {"position": np.concatenate([s[1][1] for s in found]), "example_id": np.concatenate([s[2][1] for s in found])}
    if all(name + ".token" in tensors for tensors in shards):
        columns["token"] = np.concatenate([tensors[name + ".token"][1] for tensors in shards])
    order = np.lexsort((columns["position"], columns["example_id"]))
    columns = {c: x[order].astype(np.int32) for c, x in columns.items()}
    return found[0][0][0], [s[0][1] for s in found], order, columns


def write_head(folder, x, columns, window, manifest):
    n, d = x.shape
    folder.mkdir(parents=True, exist_ok=True)
    offsets = pa.array(np.arange(0, (n + 1) * d, d, dtype=np.int32))
    columns = {
        "bucket": pa.array(bucket_of(manifest["bucket"], columns["position"]).astype(np.int32)),
        **{name: pa.array(values) for name, values in columns.items()},
        "vector": pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(x).reshape(-1))),
        "sliding_window": pa.array([window] * n, type=pa.int32()),
    }
    table = pa.table(columns).replace_schema_metadata({"qkgeom": json.dumps(manifest)})
    unfinished = folder / ".data.parquet"
    pq.write_table(table, unfinished, compression="zstd")
    unfinished.replace(folder / "data.parquet")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("capture", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    a = p.parse_args()
    manifest, shards = open_capture(a.capture)
    kept = {k: v for k, v in manifest.items() if k != "shards"}
    written = 0
    for layer in manifest["layers"]:
        number = layer["layer"]
        for side, heads in (("q", layer["query_heads"]), ("k", layer["key_heads"])):
            dtype, rows, order, columns = side_of(shards, number, side)
            for i, head in enumerate(heads):
                x = widen(dtype, np.concatenate([r[:, i] for r in rows]))[order]
                write_head(a.out / f"l{number:02}h{head:02}{side}", x, columns, layer["window"], kept)
                written += 1
    print(f"{a.out}: {written} heads of {len(manifest['layers'])} layers")


if __name__ == "__main__":
    run("capture_to_parquet.py", main)
