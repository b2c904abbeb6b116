# SPDX-License-Identifier: MIT
"""Gives the compiled functions signatures that Python reads, and wrong calls a sentence in place of a list of overloads."""
from __future__ import annotations

import collections.abc
import difflib
import functools
import inspect
import operator
import re
import types
import typing

import numpy

from . import _qkgeom

_NAMES: dict[str, typing.Any] = {**vars(_qkgeom), "collections": collections, "typing": typing, "numpy": numpy,
                                   "qkgeom": types.SimpleNamespace(_qkgeom=_qkgeom)}


def _signature(text: str, defaults: tuple[typing.Any, ...] | None) -> inspect.Signature:
    """The signature that nanobind writes as `def name(a: int = \\0) -> int`."""
    text = re.sub(r"\\(\d+)", r"_defaults[\1]", re.sub(r"(?:typing\.ND|nd)[aA]rray\[.*\]", "ndarray", text))
    names: dict[str, typing.Any] = _NAMES | {"_defaults": defaults}
    exec(f"{text}: ...", names)
    return inspect.signature(names[text[4:text.index("(")]], eval_str=True)


def _fits(x: typing.Any, hint: typing.Any) -> bool:
    kind, parts = typing.get_origin(hint), typing.get_args(hint)
    if kind in (typing.Union, types.UnionType):
        return any(_fits(x, part) for part in parts)
    if kind is collections.abc.Callable:
        return callable(x)
    if kind is typing.Literal:
        return isinstance(x, str)
    if kind is tuple:
        return isinstance(x, tuple) and len(x) == len(parts) and all(map(_fits, x, parts))
    if kind is not None:  # a list or a sequence
        return isinstance(x, collections.abc.Iterable) and not isinstance(x, str) and all(_fits(one, parts[0]) for one in x)
    if hint is object:
        return x is not None
    if hint is int:
        return hasattr(x, "__index__")
    return isinstance(x, (int, float) if hint is float else hint)


def _about(doc: str, argument: str) -> str:
    """What the documentation says of an argument, as `q, k: rows.` does; empty if it says nothing."""
    found = re.search(rf"(?:^|[.)]\s|\n)(?:\w+, )*{argument}(?:, \w+)*: (.*?)(?:\.\s|\.?$)", doc, re.DOTALL)
    return ": " + " ".join(found[1].split()) if found else ""


def _reason(signature: inspect.Signature, doc: str, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]) -> str:
    """The sentence on a call that the signature does not take."""
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as why:
        named = re.search(r"'(\w+)'", str(why))
        if named is None:
            return f"{why}: {signature}"
        if named[1] not in signature.parameters:
            near = difflib.get_close_matches(named[1], signature.parameters, 1) or [", ".join(signature.parameters)]
            return f"{why}; there is {near[0]}"
        return str(why) + _about(doc, named[1])
    for name, x in given.items():
        hint = signature.parameters[name].annotation
        if hint is not inspect.Parameter.empty and not _fits(x, hint):
            words = re.sub(r"qkgeom\._qkgeom\.|collections\.abc\.", "", inspect.formatannotation(hint))
            wanted = "must not be None" if hint is object else f"must be {words}, not {type(x).__name__}"
            return f"{name} {wanted}{_about(doc, name)}"
    return "no number may be negative or too large here: " + ", ".join(f"{n}={x!r}" for n, x in given.items()
                                                                       if isinstance(x, (int, float, str)))


def _explained(function: typing.Any) -> typing.Any:
    """The function with a signature and with sentences for wrong calls."""
    overloads = function.__nb_signature__
    text, doc, defaults = overloads[0]
    signature = _signature(text, defaults)
    if len(overloads) > 1:  # of one argument each
        last = list(signature.parameters)[-1]
        hints = functools.reduce(operator.or_, (_signature(o[0], o[2]).parameters[last].annotation for o in overloads))
        signature = signature.replace(parameters=[p.replace(annotation=hints) if p.name == last else p
                                                  for p in signature.parameters.values()])

    @functools.wraps(function)
    def call(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        try:
            return function(*args, **kwargs)
        except TypeError as why:
            if "incompatible function arguments" not in str(why):
                raise
        raise TypeError(f"{function.__name__}(): {_reason(signature, doc or '', args, kwargs)}")

    call.__doc__, call.__signature__ = doc, signature  # type: ignore[attr-defined]
    return call


for _owner in (_qkgeom, *(c for c in vars(_qkgeom).values() if isinstance(c, type))):
    for _name, _function in list(vars(_owner).items()):
        if type(_function).__name__ in ("nb_func", "nb_method") and (_name == "__getitem__" or not _name.startswith("_")):
            setattr(_owner, _name, _explained(_function))
