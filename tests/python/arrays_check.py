# SPDX-License-Identifier: MIT
"""Arrays are viewed where they lie, at any stride; what cannot be viewed is refused by a sentence."""
import resource

import numpy as np
from checks import device_tensor, refused

import qkgeom
from qkgeom import _qkgeom

rng = np.random.default_rng(1)
n, heads, d = 600, 4, 16
position = np.arange(n, dtype=np.int32)
q, k = (rng.normal(size=(n, h, d)) for h in (heads, 2))
numbers = qkgeom.analyse(q, k, position).table("heads").to_dict()

for dtype, name in ((np.float64, "F64"), (np.float32, "F32"), (np.float16, "F16")):
    x = q.astype(dtype)
    assert _qkgeom.viewed(x) == (x.__array_interface__["data"][0], name)
    wide = np.zeros((n, 2, heads, d + 3), dtype)
    y = wide[:, 1, :, :d]
    y[:] = x
    assert _qkgeom.viewed(y)[0] == y.__array_interface__["data"][0]
    z = k.astype(dtype)
    a, b = (qkgeom.analyse(v, z, position).table("heads").to_dict() for v in (x, y))
    assert a == b, "strides change nothing"
by_head = np.ascontiguousarray(q.transpose(1, 0, 2)).transpose(1, 0, 2)
assert by_head.strides != q.strides and qkgeom.analyse(by_head, k, position).table("heads").to_dict() == numbers
backwards = q[::-1]
pairs = [qkgeom.analyse(*rows).table("profile")["pairs"] for rows in ((backwards, k[::-1], position[::-1]), (q, k, position))]
assert np.array_equal(*pairs)
q.flags.writeable = False
# Positions may be of any integers, a list, a range, or left out: then the rows are one document, token by token.
kinds = [position.astype(t) for t in ("i2", "i4", "i8", "u2", "u4", "u8")] + [np.repeat(position.astype("u1"), 2)[::2]]
for given in (*kinds[:-1], position.tolist(), range(n), np.repeat(position, 2)[::2], None):
    assert qkgeom.analyse(q, k, given).table("heads").to_dict() == numbers, given
assert qkgeom.analyse(q[:250], k[:250], kinds[-1][:250], np.zeros(250, "i1")).context_length == 250
whole = np.round(4 * q[:, 0]), np.round(4 * k[:, 0])
assert qkgeom.analyse(*(x.astype("i1") for x in whole)).table("heads").to_dict() == qkgeom.analyse(*whole).table("heads").to_dict()
assert qkgeom.analyse(*(x.tolist() for x in whole)).table("heads").to_dict() == qkgeom.analyse(*whole).table("heads").to_dict()

for kind, words, rows in (
    (ValueError, ["shape (600, 4, 8)", "float64", "strides (64, 16, 2)", "q"], (q[..., ::2], k[..., ::2], position)),
    (ValueError, ["row_stride"], (np.broadcast_to(q[:1], q.shape), k, position)),
    (TypeError, ["q", "other 128"], (q.astype(complex), k, position)),
    (TypeError, ["q", "list"], ([[1.0], [1.0, 2.0]], k, position)),
    (ValueError, ["positions", "4294967295", "row 1", "32 bits"], (q, k, np.array([0] + [2**32 - 1] * (n - 1), dtype=np.uint32))),
    (ValueError, ["positions may be left out", "one document"], (q, k, None, position)),
    (ValueError, ["positions may be left out", "one document"], (q, k[1:])),
    (TypeError, ["q and k", "float32"], (q, k.astype(np.float32), position)),
    (TypeError, ["positions", "float64"], (q, k, position.astype(float))),
    (TypeError, ["positions", "<U1"], (q, k, np.array(["a"] * n))),
    (ValueError, ["head size", "16", "8"], (q, np.ascontiguousarray(k[..., :8]), position)),
    (ValueError, ["positions", "599"], (q, k, position[1:])),
    (ValueError, ["heads", "multiple"], (q[:, :3], k, position)),
):
    refused(kind, words, lambda: qkgeom.analyse(*rows))

# Rows of 256 MB: a call that copied them would show.
large = np.zeros((500_000, 64), dtype=np.float64)
large[:, 0] = np.arange(len(large))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
qkgeom.accumulate(large, large, np.arange(len(large), dtype=np.int32), buckets=100_000)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert grown < 100_000, f"{grown} KB more: rows were copied"

try:
    import torch
except ImportError:
    print("left out: tensors of PyTorch, which is not here")
else:
    x = torch.from_numpy(np.array(q, dtype=np.float32)).bfloat16()
    z = torch.from_numpy(k.astype(np.float32)).bfloat16()
    assert _qkgeom.viewed(x) == (x.data_ptr(), "BF16")
    half = qkgeom.analyse(x, z, torch.arange(n))
    exact = qkgeom.analyse(x.double(), z.double(), torch.arange(n))
    for a, b in zip(half, exact):
        assert abs(a.summary["joint"].overall.value - b.summary["joint"].overall.value) < 1e-6
    refused(ValueError, ["q", "detach"], lambda: qkgeom.analyse(torch.zeros(3, 2, requires_grad=True), z, position))

try:
    import jax.numpy as jnp
except ImportError:
    print("left out: arrays of JAX, which is not here")
else:
    for dtype, name in ((jnp.float32, "F32"), (jnp.float16, "F16"), (jnp.bfloat16, "BF16")):
        x = jnp.asarray(q, dtype)
        assert _qkgeom.viewed(x) == (x.unsafe_buffer_pointer(), name)
    found = qkgeom.analyse(jnp.asarray(q, jnp.float32), jnp.asarray(k, jnp.float32), jnp.arange(n, dtype=jnp.int32))
    same = qkgeom.analyse(q.astype(np.float32), k.astype(np.float32), position)
    assert found.table("heads").to_dict() == same.table("heads").to_dict()

# This build reads no tensor on a GPU (cuda_check.py), and none reads one on another device.
for device, words in ((2, "no CUDA"), (10, "device type 10")):
    there = device_tensor(q[:, 0], 0x1000, device)
    refused(ValueError, ["q", words, "q.cpu()"], lambda: qkgeom.analyse(there, k[:, 0], position))
    refused(ValueError, ["k", words, "k.cpu()"], lambda: qkgeom.accumulate(q[:, 0], there, position))
