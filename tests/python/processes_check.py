# SPDX-License-Identifier: MIT
"""Calls in forked children, which have none of their parent's threads, and calls from functions that a call runs."""
import concurrent.futures
import importlib.util
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import numpy as np
from checks import refused

import qkgeom

x = np.random.default_rng(0).normal(size=(600, 8))
t = np.arange(600)


def value(_=0):
    return qkgeom.analyse(x, x, t, buckets=100).summary["joint"].overall.value


def values_of_children():
    forked = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, forked) as pool:
        found = list(pool.map(value, range(4), timeout=60))
    with forked.Pool(2, initializer=qkgeom.set_threads, initargs=(1,)) as pool:
        found += pool.map_async(value, range(4)).get(60)
        found.append(pool.apply_async(qkgeom.analyse, (x, x, t), dict(buckets=100)).get(60).summary["joint"].overall.value)
    return found


if __name__ == "__main__":
    found = values_of_children()  # before any call
    for threads in (1, 2):
        qkgeom.set_threads(threads)
        found += [value(), *values_of_children()]
    # A child of a process whose other thread is within a call.
    large = np.random.default_rng(1).normal(size=(3000, 64))
    thread = threading.Thread(target=qkgeom.analyse, args=(large, large, np.arange(3000)))
    thread.start()
    found += values_of_children()
    thread.join()
    assert len(found) == 38 and len(set(found)) == 1, found
    if importlib.util.find_spec("torch"):
        import torch

        class Values(torch.utils.data.Dataset):
            __len__, __getitem__ = (lambda _: 4), (lambda _, i: value())

        assert torch.cat(list(torch.utils.data.DataLoader(Values(), num_workers=2, timeout=60))).tolist() == found[:4]

    # A function that a call runs must not call: it would wait for that call.
    moments = qkgeom.accumulate(x, x, t, buckets=100)
    models = qkgeom.fit_queries(moments)
    refused(ValueError, "must not call", lambda: qkgeom.plasticity_profile(models, x, x, t, pairs=lambda p: qkgeom.pca(moments)[0].r_q[0]))
    golden = pathlib.Path(__file__).parents[1] / "data/golden/short-bf16.safetensors"
    refused(ValueError, "must not call", lambda: qkgeom.open_capture(golden, progress=lambda done, total: qkgeom.set_threads(1)).report())
    assert value() > 0, "after the refusal calls run"

    # An exception that nobody catches says no more than itself, whatever it holds.
    code = "import numpy as np, qkgeom\nr = qkgeom.analyse(np.ones((9, 2)) * np.arange(9)[:, None], np.ones((9, 2)), np.arange(9))\nr[9]"
    with tempfile.TemporaryDirectory() as folder:
        found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, cwd=folder, env=os.environ)
    assert "IndexError" in found.stderr and "nanobind" not in found.stderr, found.stderr
