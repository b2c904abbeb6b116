# SPDX-License-Identifier: MIT
"""Names of before, which warn and go on working until 1.0; README lists them."""
from __future__ import annotations

import functools
import operator
import types
import typing
import warnings

from . import _qkgeom

Function = typing.TypeVar("Function", bound=typing.Callable[..., typing.Any])


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is called {new} now", DeprecationWarning, stacklevel=3)


def q_head_was_head(function: Function) -> Function:
    """The function, whose argument q_head may be named head."""

    @functools.wraps(function)
    def call(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        if "head" in kwargs:
            _warn(f"the argument head of {function.__name__}", "q_head")
            kwargs["q_head"] = kwargs.pop("head")
        return function(*args, **kwargs)

    return typing.cast(Function, call)


class Row(typing.Dict[str, typing.Union[int, float]]):
    """A row of the monitor."""

    def __missing__(self, name: str) -> int | float:
        if name != "head":
            raise KeyError(name)
        _warn("head", "q_head")
        return self["q_head"]


def _property(of: type, old: str, new: str, value: typing.Callable[[typing.Any], typing.Any]) -> None:
    def get(self: typing.Any) -> typing.Any:
        _warn(f"{of.__name__}.{old}", new)
        return value(self)

    setattr(of, old, property(get, doc=f"Old name of {new}."))


def _buckets(profile: typing.Any) -> list[types.SimpleNamespace]:
    names = ("start", "end", "queries", "pairs", "plasticity", "standard_error", "sampling_error", "document_sum", "document_weight")
    return [types.SimpleNamespace(**dict(zip(names, row))) for row in zip(*(getattr(profile, n) for n in names))]


for _old, _new in (("profiles", "profile[NAME]"), ("summaries", "summary[NAME]"), ("empirical", "profile['empirical']"),
                   ("empirical_summary", "summary['empirical']"), ("empirical_unbiased", "summary['empirical_unbiased']")):
    _property(_qkgeom.HeadReport, _old, f"HeadReport.{_new}", operator.attrgetter(f"_{_old}"))
_property(_qkgeom.Profile, "buckets", "Profile.start, .plasticity and so on, arrays over buckets", _buckets)
setattr(_qkgeom.Report, "head", q_head_was_head(_qkgeom.Report.head))
