#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes gguf-blocks.safetensors: for every block type of GGUF that is read, random blocks (TYPE.blocks, bytes) and what the
Python package `gguf` makes of them (TYPE.values, f32).

Usage: make_gguf_blocks.py OUT.safetensors   (needs gguf, numpy, safetensors)
"""
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize
from safetensors.numpy import save_file

# type: the bytes at which its half-precision scales begin
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0], "MXFP4": [], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0], "F16": [0], "BF16": []}
random = np.random.default_rng(7)
found = {}
for name, halves in HALVES.items():
    elements, size = GGML_QUANT_SIZES[Type[name]]
    count = max(3, 96 // elements)
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    for at in halves:
        blocks[:, at:at + 2] = random.normal(0, 0.1, (count, 1)).astype(np.float16).view(np.uint8)
    if name == "MXFP4":
        blocks[:, 0] = [0, 1, 127]  # the first two give numbers below the normal ones
    if name == "BF16":
        blocks = (random.normal(0, 1, (count, 1)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    found[name + ".blocks"] = np.ascontiguousarray(blocks.reshape(-1))
    found[name + ".values"] = dequantize(blocks, Type[name]).astype(np.float32).reshape(-1)
    assert np.isfinite(found[name + ".values"]).all()
save_file(found, sys.argv[1])
