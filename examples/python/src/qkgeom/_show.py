# SPDX-License-Identifier: MIT
"""repr of the result classes."""
from __future__ import annotations

import typing


def short(value: typing.Any) -> str:
    if hasattr(value, "_fields"):
        return f"{type(value).__name__}(...)"
    if hasattr(value, "shape"):
        return f"array{tuple(value.shape)}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and value:
        if hasattr(value[0], "_fields"):
            return f"[{len(value)} x {type(value[0]).__name__}]"
        if len(value) > 8:
            return f"[{len(value)} values]"
        return "[" + ", ".join(short(v) for v in value) + "]"
    return repr(value)


def show(record: typing.Any) -> str:
    return f"{type(record).__name__}(" + ", ".join(f"{n}={short(getattr(record, n))}" for n in record._fields) + ")"
