# SPDX-License-Identifier: MIT
"""Reads and writes capture files: safetensors with a manifest. numpy only."""
import json
import os
import pathlib
import re

import numpy as np

TYPES = {"BF16": np.uint16, "F16": np.float16, "F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64}
HEAD_FOLDER = re.compile(r"l(\d+)h(\d+)([qk])")


class ConversionError(Exception):
    """The sentence that a converter prints before it exits with status 2."""


def open_safetensors(path):
    """Opens a safetensors file: (name -> (dtype name, mapped array), metadata)."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as f:
            header_size = int.from_bytes(f.read(8), "little")
            if header_size > size - 8:
                raise ConversionError(f"{path}: not a safetensors file, its header ends past the end of the file")
            header = json.loads(f.read(header_size))
    except (OSError, ValueError) as e:
        raise ConversionError(f"{path}: {e}") from e
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + header_size)
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        if t["dtype"] in TYPES and 0 <= begin <= end <= len(data):
            tensors[name] = (t["dtype"], data[begin:end].view(TYPES[t["dtype"]]).reshape(t["shape"]))
    return tensors, metadata


def open_capture(path):
    """Opens a capture, a folder or a single file: (manifest, [tensors of each shard])."""
    path = pathlib.Path(path)
    if not path.exists():
        raise ConversionError(f"{path}: there is no such capture")
    if path.is_dir():
        try:
            manifest = json.loads((path / "manifest.json").read_text())
        except (OSError, ValueError) as e:
            raise ConversionError(f"{path}/manifest.json: {e}") from e
        return manifest, [open_safetensors(path / s["file"])[0] for s in manifest["shards"]]
    tensors, metadata = open_safetensors(path)
    if "qkgeom" not in metadata:
        raise ConversionError(f"{path}: not a capture, its metadata have no entry qkgeom")
    return json.loads(metadata["qkgeom"]), [tensors]


def widen(dtype, x):
    """x as f32; f64 values that f32 cannot hold are an error."""
    if dtype == "BF16":
        return (x.astype(np.uint32) << 16).view(np.float32)
    y = x.astype(np.float32)
    if dtype == "F64" and not np.array_equal(y.astype(np.float64), x, equal_nan=True):
        raise ConversionError("this capture holds f64 values that f32 cannot hold, and the parquet format holds f32 only")
    return y


def narrow(dtype, x):
    """f32 values as F32 or as the bits of BF16; values that bf16 cannot hold are an error."""
    if dtype == "F32":
        return x
    bits = x.view(np.uint32)
    if (bits & 0xFFFF).any():
        raise ConversionError("these vectors hold f32 values that bf16 cannot hold; convert them with --dtype f32")
    return (bits >> 16).astype(np.uint16)


def bucket_of(bucket, position):
    """Bucket numbers of token positions."""
    if bucket["kind"] == "uniform":
        return position // bucket["size"]
    if bucket["kind"] == "log2":  # floor(log2(t + 1)) is the exponent of t + 1, exactly
        smallest = max(1, bucket.get("size", 1))
        return np.maximum(np.frexp((position + 1).astype(np.float64))[1] - 1, smallest.bit_length() - 1)
    return position


class SafetensorsWriter:
    """Writes a safetensors file tensor by tensor; it appears complete or not at all."""

    def __init__(self, path, shapes, manifest):
        """shapes: name -> (dtype name, shape), in the order of the calls of `add`."""
        header, at = {"__metadata__": {"qkgeom": json.dumps(manifest, separators=(",", ":"))}}, 0
        for name, (dtype, shape) in shapes.items():
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(TYPES[dtype]).itemsize
            header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-(8 + len(text)) % 64)
        self.path, self.shapes, self.left = pathlib.Path(path), shapes, list(shapes)
        self.unfinished = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        self.file = open(self.unfinished, "wb")
        self.file.write(len(text).to_bytes(8, "little") + text)

    def add(self, name, array):
        dtype, shape = self.shapes[name]
        assert self.left.pop(0) == name and array.shape == tuple(shape), name
        np.ascontiguousarray(array, dtype=TYPES[dtype]).tofile(self.file)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.file.close()
        if kind is None and not self.left:
            os.replace(self.unfinished, self.path)
        else:
            self.unfinished.unlink()


def run(program, main):
    """Runs main(); on an error prints one sentence to stderr and exits with status 2."""
    import sys

    try:
        main()
    except (ConversionError, OSError) as e:
        print(f"{program}: {e}", file=sys.stderr)
        sys.exit(2)
