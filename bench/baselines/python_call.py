#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""python_call.py FILE THREADS CALLS: what bench/analyse_call.cpp does, through the Python package, on the rows of FILE."""
import json
import struct
import sys
import time

import numpy as np

import qkgeom

file, threads, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
data = np.fromfile(file, np.uint8)
(size,) = struct.unpack("<Q", data[:8].tobytes())
header = json.loads(data[8:8 + size].tobytes())


def tensor(name):
    entry = header[name]
    begin, end = (8 + size + at for at in entry["data_offsets"])
    return data[begin:end].view({"F32": np.float32, "I32": np.int32}[entry["dtype"]]).reshape(entry["shape"])


rows = {n: tensor(n) for n in header if n != "__metadata__"}
qkgeom.set_threads(threads)
for _ in range(calls):
    began, cpu = time.monotonic(), time.process_time()
    report = qkgeom.analyse(rows["q"], rows["k"], rows["q_position"], rows["q_document"], buckets=131072 // 16,
                            context_length=131072, covariance=("diagonal", "joint"), key_positions=rows["k_position"],
                            key_documents=rows["k_document"])
    print(f"{time.monotonic() - began:.6f} {time.process_time() - cpu:.6f} {report[0].summaries[0].overall.value:.17g}")
