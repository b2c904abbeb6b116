# SPDX-License-Identifier: MIT
"""Shared by the checks: calls that are refused, and tensors on a CUDA device, as DLPack describes them."""
import ctypes


def refused(kind, words, call):
    """The call raises an error of that kind, which says all the words."""
    try:
        call()
    except kind as e:
        assert all(w in str(e) for w in ([words] if isinstance(words, str) else words)), (words, str(e))
        return
    raise AssertionError(f"not refused: {words}")


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class device_tensor:
    """Has the shape, element type and strides of the NumPy array `like`, at `address` of device 0 of a `kind`."""

    def __init__(self, like, address, kind=2):
        self.shape = (ctypes.c_int64 * like.ndim)(*like.shape)
        self.strides = (ctypes.c_int64 * like.ndim)(*(s // like.itemsize for s in like.strides))
        code = {"i": 0, "u": 1, "f": 2}[like.dtype.kind]
        self.kind = kind
        self.tensor = DLTensor(address, kind, 0, like.ndim, code, 8 * like.itemsize, 1, self.shape, self.strides, 0, None, None)

    def __dlpack__(self, **_):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)

    def __dlpack_device__(self):
        return (self.kind, 0)
