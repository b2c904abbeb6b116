#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the checkpoints of families/: OUT/NAME/ gets the files that stand there, but weights.json, and
model.safetensors with the random bf16 weights that weights.json describes. The build of the tests runs this.

weights.json: {"seed": s, "norm": c, "tensors": {name: shape}}. Weights are near normal with mean 0 and deviation 0.2; those
of norms have mean c, biases deviation 0.3, scalars of layers mean 1 and deviation 0.3. The seed and its name give a tensor.

Usage: make_family_weights.py FAMILIES OUT
"""
import array
import json
import math
import pathlib
import random
import shutil
import struct
import sys


def distribution(name, norm):
    """Mean and standard deviation of a tensor's entries."""
    if name.endswith("layer_scalar"):
        return 1, 0.3
    if "norm" in name and name.endswith("weight"):
        return norm, 0.2
    return 0, 0.3 if name.endswith("bias") and not name.endswith("e_score_correction_bias") else 0.2


def entries(name, shape, seed, norm):
    """Words of bf16. Sums of four uniform 32-bit numbers are near normal and the same on every machine."""
    mean, deviation = distribution(name, norm)
    n = math.prod(shape)
    words = array.array("I", random.Random(f"{seed} {name}").getrandbits(128 * n).to_bytes(16 * n, "little"))
    unit = deviation * math.sqrt(3) / 2**32  # four uniform numbers in [0, 1) have a deviation of 1 / sqrt(3)
    values = array.array("f", (mean + unit * (sum(words[i:i + 4]) - 2**33) for i in range(0, 4 * n, 4)))
    bits = array.array("I", values.tobytes())
    return array.array("H", ((x + 0x7FFF + (x >> 16 & 1)) >> 16 for x in bits)).tobytes()


def write_weights(description, path):
    header, values, end = {"__metadata__": {"format": "pt"}}, [], 0
    for name, shape in description["tensors"].items():
        values.append(entries(name, shape, description["seed"], description["norm"]))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end := end + len(values[-1])]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(values))


def main(families, out):
    for folder in sorted(pathlib.Path(families).iterdir()):
        to = pathlib.Path(out) / folder.name
        to.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            if file.name != "weights.json":
                shutil.copy(file, to)
        write_weights(json.loads((folder / "weights.json").read_text()), to / "model.safetensors")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
