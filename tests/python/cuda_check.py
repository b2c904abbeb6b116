# SPDX-License-Identifier: MIT
"""Tensors on a CUDA device give what the same rows in host memory give. cuda_check.py LIBRARY: the device is one that the host
emulates, in LIBRARY, the file beside the module that a build with CUDA would have."""
import ctypes
import sys
import types

import numpy as np
from checks import device_tensor, refused

import qkgeom

device = ctypes.CDLL(sys.argv[1])
device.emulated_stream.restype = ctypes.c_void_p
device.emulated_copy.restype = ctypes.c_void_p
device.emulated_copy.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
stream = device.emulated_stream()


def there(x):
    """x on the device, once `stream` has come so far."""
    whole = x if x.base is None else x.base
    begin = device.emulated_copy(whole.ctypes.data, whole.nbytes, stream)
    return device_tensor(x, begin + x.ctypes.data - whole.ctypes.data)


def agree(a, b, bound):
    """Tables of numbers agree."""
    a, b = a.to_dict(), b.to_dict()
    assert a.keys() == b.keys()
    for name, column in a.items():
        for x, y in zip(column, b[name], strict=True):
            if isinstance(x, float) and x == x:
                assert abs(x - y) <= bound * (1 + abs(x)), (name, x, y)
            else:
                assert x == y or x != x, (name, x, y)


rng = np.random.default_rng(3)
n, d = 384, 16
position = np.concatenate([np.arange(96)] * 4).astype(np.int64)
document = np.repeat(np.arange(4, dtype=np.int32), 96)
q = rng.normal(size=(n, 4, d)) + 0.01 * position[:, None, None]
wide = rng.normal(size=(n, 3, d + 5))
k = wide[:, :2, :d]  # of rows with gaps
options = {"buckets": 24, "covariance": ["diagonal", "joint", "empirical"]}

refused(ValueError, ["q and k", "same memory"], lambda: qkgeom.analyse(there(q), k, position))

# The caller's stream is PyTorch's current one. On another, the rows would still be NaN.
torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=stream))
sys.modules["torch"] = torch

for dtype, bound in ((np.float64, 1e-9), (np.float32, 1e-5), (np.float16, 1e-5)):
    x, y = q.astype(dtype), np.ascontiguousarray(wide.astype(dtype))[:, :2, :d]
    near = qkgeom.analyse(x, y, position, document, **options)
    far = qkgeom.analyse(there(x), there(y), there(position), there(document), **options)
    for table in ("heads", "profile"):
        agree(near.table(table), far.table(table), bound)
    near, here = (qkgeom.analyse(*rows, position, document, pairs="prefix_uniform", **options) for rows in ((x, y), (there(x), there(y))))
    agree(near.table("profile"), here.table("profile"), bound)
    halves = qkgeom.analyse(there(x), there(y), position, document, **options)  # positions in host memory
    assert halves.table("heads").to_dict() == far.table("heads").to_dict()

moments = qkgeom.accumulate(there(q), there(k), position, document, buckets=24)
exact = qkgeom.accumulate(q, k, position, document, buckets=24)
assert abs(moments.q[0].total.xx - exact.q[0].total.xx).max() < 1e-9 * abs(exact.q[0].total.xx).max()
models = qkgeom.fit_queries(exact, "joint")
for pairs in ("all", "prefix_uniform"):
    a = qkgeom.plasticity_profile(models, q, k, position, document, pairs=pairs)
    b = qkgeom.plasticity_profile(models, there(q), there(k), position, document, pairs=pairs)
    for x, y in zip(a, b, strict=True):
        assert np.nanmax(abs(x.plasticity - y.plasticity)) < 1e-9 and list(np.isnan(x.plasticity)) == list(np.isnan(y.plasticity))
one = qkgeom.analyse(there(np.ascontiguousarray(q[:, 0])), there(np.ascontiguousarray(k[:, 0])), position, document, **options)
agree(one.table("profile"), qkgeom.analyse(q[:, 0], k[:, 0], position, document, **options).table("profile"), 1e-9)

refused(ValueError, ["pairs", "cpu()"], lambda: qkgeom.plasticity_profile(models, there(q), there(k), position, pairs=lambda p: 1.0))
refused(ValueError, ["positions", "gaps"], lambda: qkgeom.analyse(there(q), there(k), there(np.repeat(position, 2)[::2])))
broken = q.copy()
broken[5, 1, 2] = np.nan
refused(ValueError, ["row 5", "q"], lambda: qkgeom.accumulate(there(broken), there(k), position, document))
