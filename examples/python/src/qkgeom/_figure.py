# SPDX-License-Identifier: MIT
"""The figures' class, apart from the rest because matplotlib is imported where a figure is drawn."""
from __future__ import annotations

import io

import matplotlib.figure


class Figure(matplotlib.figure.Figure):
    """A figure that notebooks show, pyplot or not."""

    def _repr_png_(self) -> bytes:
        to = io.BytesIO()
        self.savefig(to, format="png")
        return to.getvalue()
