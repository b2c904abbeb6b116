#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Converts the parquet folders of attention-plasticity, FOLDER/l{LL}h{HH}{q|k}/data.parquet, to one capture file.

Usage: parquet_to_capture.py FOLDER OUT.safetensors [options]
Lossless: f32 in, f32 out. Model, buckets, context length and head counts come from the manifest that
capture_to_parquet.py wrote into the files, else from the options, else from the data if these determine them. Needs numpy
and pyarrow, and memory for one layer.
"""
import argparse
import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capture_files import HEAD_FOLDER, ConversionError, SafetensorsWriter, bucket_of, narrow, run

COLUMNS = ["bucket", "example_id", "position", "vector"]
OPTIONAL = ["token", "sliding_window"]  # only capture_to_parquet.py writes token


def find_heads(folder):
    """layer -> side -> head -> file."""
    layers = {}
    for path in sorted(folder.glob("*/data.parquet")):
        if m := HEAD_FOLDER.fullmatch(path.parent.name):
            layers.setdefault(int(m[1]), {"q": {}, "k": {}})[m[3]][int(m[2])] = path
    if not layers:
        raise ConversionError(f"{folder}: there is no l00h00q/data.parquet or the like in this folder")
    for number, sides in layers.items():
        for side, what in (("q", "queries"), ("k", "keys")):
            if not sides[side]:
                raise ConversionError(f"{folder}: layer {number} has no {what}")
    return {n: {s: dict(sorted(h.items())) for s, h in layers[n].items()} for n in sorted(layers)}


def integers(table, name, path):
    column = table.column(name)
    if column.null_count or not pa.types.is_integer(column.type):
        raise ConversionError(f"{path}: column {name} must hold integers, none of them null, not {column.type}")
    return column.to_numpy().astype(np.int64)


def read_table(path):
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        if missing := [c for c in COLUMNS if c not in names]:
            raise ConversionError(f"{path}: there is no column {missing[0]}")
        return file.read(columns=COLUMNS + [c for c in OPTIONAL if c in names])
    except pa.ArrowException as e:
        raise ConversionError(f"{path}: {e}") from e


def vectors_of(table, path):
    """Column vector (n, d) as f32."""
    lists, n = table.column("vector").combine_chunks(), table.num_rows
    values = lists.flatten()
    d = len(values) // max(n, 1)
    lengths = d if pa.types.is_fixed_size_list(lists.type) else np.asarray(lists.value_lengths())
    if d == 0 or lists.null_count or values.null_count or len(values) != n * d or not np.all(lengths == d):
        raise ConversionError(f"{path}: column vector must hold lists of one length without nulls, and at least one")
    x = values.to_numpy(zero_copy_only=False)
    f32 = x.astype(np.float32)
    if not np.array_equal(f32.astype(x.dtype), x, equal_nan=True):
        raise ConversionError(f"{path}: column vector holds {values.type} values that f32 cannot hold")
    return f32.reshape(n, d)


def read_head(path):
    """Vectors (n, d) and columns, sorted by (document, position), and the window or None."""
    table = read_table(path)
    x = vectors_of(table, path)
    columns = {c: integers(table, c, path) for c in table.column_names if c not in ("vector", "sliding_window")}
    for name in ("example_id", "position"):
        if columns[name].min() < 0 or columns[name].max() >= 2**31:
            raise ConversionError(f"{path}: column {name} must be at least 0 and fit 32 bits")
    windows = set(table.column("sliding_window").to_pylist()) if "sliding_window" in table.column_names else {None}
    if len(windows) != 1:
        raise ConversionError(f"{path}: column sliding_window holds several values")
    window = windows.pop()
    order = np.lexsort((columns["position"], columns["example_id"]))
    return x[order], {c: v[order] for c, v in columns.items()}, window if window and window > 0 else None


def guess_bucket(bucket, position):
    """The buckets with these numbers: uniform ones if some fit, else log2."""
    later = bucket > 0
    if later.any() and (position >= bucket).all():
        high = int((position[later] // bucket[later]).min())
        low = int((position // (bucket + 1)).max()) + 1
        for size in sorted(range(low, min(high, low + 4096) + 1), key=lambda b: (b & -b, -b), reverse=True):
            if np.array_equal(position // size, bucket):  # most factors of 2, then the smallest
                return {"kind": "uniform", "size": size}
    smallest = {"kind": "log2", "size": 1 << min(int(bucket.min()), 62)}
    if np.array_equal(bucket_of(smallest, position), bucket):
        return smallest
    raise ConversionError("the bucket numbers fit neither a uniform nor a log2 grid; check columns bucket and position")


def head_count(layers, side, given, option):
    """Number of heads of the model; folder names determine it only if each head occurs in some layer."""
    seen = sorted(set().union(*(s[side] for s in layers.values())))
    if given is None and seen != list(range(len(seen))):
        raise ConversionError(f"not all heads are there in any layer, so say how many the model has: {option}")
    if given is not None and seen[-1] >= given:
        raise ConversionError(f"{option} {given}, but there is a head {seen[-1]}")
    return given or len(seen)


def guessed_manifest(a, layers):
    """A manifest made of the options and of the first head of the first layer."""
    first = next(iter(layers.values()))
    x, columns, _ = read_head(next(iter(first["q"].values())))
    bucket, position = columns["bucket"], columns["position"]
    grid = {"kind": "log2" if a.log2 else "uniform", "size": a.bucket_size} if a.bucket_size else guess_bucket(bucket, position)
    if not np.array_equal(bucket_of(grid, position), bucket):
        raise ConversionError(f"--bucket-size {a.bucket_size}: column bucket says otherwise")
    longest, last = int(position.max()) + 1, int(bucket.max()) + 1
    length = a.context_length or (last * grid["size"] if grid["kind"] == "uniform" else 2**last - 1)
    if length < longest:
        raise ConversionError(f"--context-length {length}, but there is a position {longest - 1}")
    return {
        "format": "qkgeom-capture", "version": 1,
        "model": {"name": a.model or a.folder.name, "model_type": a.model_type, "config_sha256": "", "head_dim": x.shape[1],
                  "n_layers": a.n_layers or max(layers) + 1,
                  "n_query_heads": head_count(layers, "q", a.query_heads, "--query-heads"),
                  "n_key_heads": head_count(layers, "k", a.key_heads, "--key-heads")},
        "context_length": length, "bucket": grid, "rate": 1 / grid["size"] if grid["kind"] == "uniform" else 1.0,
        "rope_stage": "post", "seed": 0, "layers": [{"layer": n, "rope": n not in a.nope_layers} for n in layers],
        "written_by": "parquet_to_capture.py",
    }


def with_heads(manifest, layers, windows):
    """The manifest with the layers and heads of the folder."""
    model, known = manifest["model"], {layer["layer"]: layer for layer in manifest["layers"]}
    for number, sides in layers.items():
        for q in sides["q"]:
            k = q * model["n_key_heads"] // model["n_query_heads"]
            if k not in sides["k"]:
                raise ConversionError(f"layer {number}: query head {q} of {model['n_query_heads']} reads key head {k} of "
                                      f"{model['n_key_heads']}, which is not there; see --query-heads and --key-heads")
    listed = [{**known.get(n, {"layer": n, "rope": True}), "window": windows[n], "query_heads": list(s["q"]),
               "key_heads": list(s["k"])} for n, s in layers.items()]
    return {**manifest, "layers": listed}


def read_side(heads, rows):
    """One side of a layer: vectors (n, heads, d), columns, window. All heads must hold the same rows."""
    all_heads = first = None
    for i, path in enumerate(heads.values()):
        x, columns, window = read_head(path)
        if first is None:
            first = columns, window, path
            all_heads = np.empty((rows, len(heads), x.shape[1]), np.float32)
        if x.shape[1] != all_heads.shape[2]:
            raise ConversionError(f"{path}: vectors of length {x.shape[1]}, but {all_heads.shape[2]} in {first[2]}")
        same = columns.keys() == first[0].keys() and all(np.array_equal(columns[c], first[0][c]) for c in columns)
        if not same or window != first[1]:
            raise ConversionError(f"{path}: its rows are other ones than those of {first[2]}")
        all_heads[:, i] = x
    return all_heads, *first[:2]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--model", help="the model's name (default: the folder's)")
    p.add_argument("--model-type", default="unknown")
    p.add_argument("--n-layers", type=int)
    p.add_argument("--query-heads", type=int, help="query heads of the model, drawn or not")
    p.add_argument("--key-heads", type=int, help="key heads of the model")
    p.add_argument("--context-length", type=int, help="tokens (default: the end of the last bucket)")
    p.add_argument("--bucket-size", type=int, help="tokens (default: from the data)")
    p.add_argument("--log2", action="store_true", help="with --bucket-size: log2 buckets, the smallest of that size")
    p.add_argument("--nope-layers", type=lambda s: [int(x) for x in s.split(",")], default=[], help="e.g. 3,7,11")
    p.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="bf16 only if it holds every value")
    return p.parse_args()


def main():
    a = arguments()
    layers = find_heads(a.folder)
    sides = [(n, s) for n in layers for s in "qk"]
    try:
        files = {at: pq.ParquetFile(next(iter(layers[at[0]][at[1]].values()))) for at in sides}
    except (pa.ArrowException, OSError) as e:
        raise ConversionError(f"{a.folder}: {e}") from e
    left = (files[sides[0]].schema_arrow.metadata or {}).get(b"qkgeom")
    manifest = json.loads(left) if left else guessed_manifest(a, layers)
    d, length, dtype = manifest["model"]["head_dim"], manifest["context_length"], a.dtype.upper()
    rows = {at: f.metadata.num_rows for at, f in files.items()}
    windows = {n: read_head(next(iter(layers[n]["q"].values())))[2] for n in layers}
    names = {"position": "position", "example_id": "example"}
    if all("token" in f.schema_arrow.names for f in files.values()):
        names["token"] = "token"
    shapes = {f"layer.{n}.{s}": (dtype, (rows[n, s], len(layers[n][s]), d)) for n, s in sides}
    shapes |= {f"layer.{n}.{s}.{name}": ("I32", (rows[n, s],)) for n, s in sides for name in names.values()}
    columns = {}
    with SafetensorsWriter(a.out, shapes, with_heads(manifest, layers, windows)) as out:
        for n, s in sides:
            x, columns[n, s], window = read_side(layers[n][s], rows[n, s])
            if window != windows[n]:
                raise ConversionError(f"layer {n}: queries and keys have different windows")
            if x.shape[2] != d:
                raise ConversionError(f"layer {n}: vectors of length {x.shape[2]}, not the model's {d}")
            if (last := columns[n, s]["position"].max()) >= length:
                raise ConversionError(f"layer {n}: there is a position {last}, past the context of {length} tokens")
            out.add(f"layer.{n}.{s}", narrow(dtype, x))
        for n, s in sides:
            for column, name in names.items():
                out.add(f"layer.{n}.{s}.{name}", columns[n, s][column])
    print(f"{a.out}: {sum(len(s['q']) for s in layers.values())} query heads of {len(layers)} layers")


if __name__ == "__main__":
    run("parquet_to_capture.py", main)
