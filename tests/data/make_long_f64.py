#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the capture golden/long-f32.safetensors with its values in f64. The build of the tests runs this.

Usage: make_long_f64.py LONG_F32 OUT
"""
import array
import json
import struct
import sys


def main():
    with open(sys.argv[1], "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        values = f.read()
    parts, end = [], 0
    for tensor in (t for name, t in header.items() if name != "__metadata__"):
        begin, stop = tensor["data_offsets"]
        part = values[begin:stop]
        if tensor["dtype"] == "F32":
            tensor["dtype"], part = "F64", array.array("d", array.array("f", part)).tobytes()
        tensor["data_offsets"] = [end, end := end + len(part)]
        parts.append(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(sys.argv[2], "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


main()
