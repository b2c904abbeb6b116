#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes cache-types.safetensors: random keys (`keys`, f32, blocks of 32) and what the Python package `gguf` gives back for
them from each type of a key-value cache that it can write (TYPE.values, f32).

Usage: make_cache_types.py OUT.safetensors   (needs gguf, numpy, safetensors)
"""
import sys

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file

random = np.random.default_rng(11)
keys = random.normal(0, 1, (24, 32)).astype(np.float32)
keys[1] = 0
keys[2] = 3.25                                            # all alike
keys[3, 5] = 80                                           # one outlier
keys[4] = -np.arange(32) / 8                              # on the grid of 5 bits
keys[5, 7], keys[5, 9] = 4.5, -4.5                        # two of the largest size
keys[6] *= 1e-7                                           # scales below the normal halves
keys[7] += 20                                             # far from 0
found = {"keys": keys.reshape(-1)}
for name in ("F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0"):
    found[name.lower() + ".values"] = dequantize(quantize(keys, Type[name]), Type[name]).astype(np.float32).reshape(-1)
save_file(found, sys.argv[1])
