# SPDX-License-Identifier: MIT
"""Heads of a model while it is trained."""
from __future__ import annotations

import csv
import dataclasses
import math
import os
import typing
import warnings

import numpy as np
import torch

from ._attention import Attention, Document, Unsupported, chosen_of, chunk_of, layer_of, observed_attention
from ._captures import Path
from ._qkgeom import Moments, accumulate, draw_tokens, fit_queries, planar_rotation, plasticity_profile, summarize
from ._renamed import Row

_NOT_TRAINING = "calls outside of training (model.eval() or torch.no_grad())"


@dataclasses.dataclass
class _Document:
    """Numbers of one document in one layer. Documents merge in the order of their numbers, whatever rank they came from."""

    number: int
    tokens: int
    context: int  # of the step
    window: int | None  # of the layer
    largest: list[float]  # (query heads) scaled q . k
    sink: list[float]  # (query heads) sum over queries
    moments: Moments
    keys: np.ndarray[typing.Any, typing.Any]  # (keys, key heads, d)
    positions: np.ndarray[typing.Any, typing.Any]  # (keys)


class Monitor:
    """Watches the heads of a transformers model while it is trained:

        with qkgeom.Monitor(model, every=100, to="heads.csv") as monitor:
            for batch in batches:
                ...                # forward, backward, optimizer
                monitor.step()

    In each step that `every` divides, from step 0 on, the training calls of the model (in train() and with gradients) are
    observed; each row of a batch is a document, less its padding. What does not fit is left out and counted in `skipped`, with
    a warning for the first of a kind: once entered, nothing here ends the training. A row per layer and query head:
    `max_logit`, the exact maximum of the scaled q . k over the keys that a query sees (before a soft cap); `sink_mass`, the
    mean attention weight on token 0; `bias_context`, the bias per context (4.6); `ap_overall`, `ap_first_20pct`,
    `ap_last_20pct`, `ap_drop` and `ap_0`, `ap_1`, ... per query bucket (4.4.5), the context being the longest of a call's
    documents, the same in all calls of a step, cut into `buckets` equal buckets. Plasticity has its query model (`covariance`)
    from every token and runs over `keys` keys per bucket and document, drawn by (`seed`, document, layer). NaN: there is none,
    in CSV an empty field. Layers that attend within chunks shorter than the documents have no rows.
    to: path of a CSV file, which rows are appended to, or a function that takes the rows of a step. run: name of the run, the
    first column of the file. first_step: number of the first step, e.g. where a training resumes.

    Under torch.distributed all ranks step together; rank 0 has the rows. If each has as many documents, their numbers are
    those of one process that calls the model with the ranks' documents in the order of ranks: each rank sends the moments of
    each document, about 8 (buckets + 1) d^2 bytes per query head and key head.
    """

    def __init__(self, model: torch.nn.Module, every: int = 100, *, to: Path | typing.Callable[[list[Row]], None] | None = None,
                 buckets: int = 8, keys: int = 64, covariance: str = "joint", seed: int = 0, run: str | None = None,
                 first_step: int = 0) -> None:
        for name, value, least in (("every", every, 1), ("buckets", buckets, 1), ("keys", keys, 2)):
            if value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        self._model, self._every, self._to = model, every, to
        self._buckets, self._keys, self._covariance, self._seed = buckets, keys, covariance, seed
        self._observed: observed_attention | None = None
        self._documents: dict[int, list[_Document]] = {}  # by layer
        self._call: tuple[list[Document], dict[int, list[_Document]]] = ([], {})  # of the call that runs
        self._tokens, self._run = 0, run
        self.now: int = first_step
        """Number of the step that runs."""
        self.skipped: dict[str, int] = {}
        """How often something was left out, by the reason."""

    def __enter__(self) -> Monitor:
        self._columns()
        self._watch()
        return self

    def __exit__(self, *_: object) -> None:
        self._unwatch()

    def step(self) -> list[Row]:
        """Ends a training step. Returns its rows: none where it was not observed, and on ranks other than 0."""
        rows: list[Row] = []
        self._unwatch()
        try:
            if self._watched():
                for layer, documents in sorted(self._gather().items()):
                    rows += self._rows(layer, documents)
                if rows:
                    self._hand_out(rows)
        except Exception as why:
            self._refuse(why)
        self.now += 1
        try:
            self._watch()
        except Exception as why:
            self._refuse(why)
        return rows

    def _watched(self) -> bool:
        return self.now % self._every == 0

    def _watch(self) -> None:
        if self._watched():
            self._documents.clear()
            observed = observed_attention(self._model, self)
            observed.__enter__()
            self._observed = observed

    def _unwatch(self) -> None:
        if self._observed is not None:
            self._observed.__exit__()
            self._observed = None

    def _refuse(self, why: Exception) -> None:
        words = str(why) if isinstance(why, Unsupported) else f"{type(why).__name__}: {why}"
        self.skipped[words] = self.skipped.get(words, 0) + 1
        if self.skipped[words] == 1 and words != _NOT_TRAINING:
            warnings.warn(f"qkgeom.Monitor leaves out, in step {self.now}: {words}", stacklevel=2)

    def _width(self) -> int:
        return -(-self._tokens // self._buckets)

    def _begin(self, read: typing.Callable[[], list[Document]]) -> None:
        if not (self._model.training and torch.is_grad_enabled()):
            raise Unsupported(_NOT_TRAINING)
        documents = read()
        tokens = max(d.end for d in documents)
        if self._documents and tokens != self._tokens:
            raise Unsupported(f"documents of {tokens} tokens in a step of documents of {self._tokens}")
        chosen = chosen_of(self._model, tokens)
        if chosen is not None:
            raise Unsupported(f"documents of {tokens} tokens, whose queries see the {chosen} keys that an indexer chooses")
        self._tokens, self._call = tokens, (documents, {})

    def _end(self, ids: torch.Tensor, result: typing.Any) -> None:
        for layer, new in self._call[1].items():
            self._documents.setdefault(layer, []).extend(new)

    def _take(self, module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, options: dict[str, typing.Any]) -> None:
        layer, chunk = layer_of(module), chunk_of(module)
        if chunk is not None and chunk < self._tokens:
            return
        attention = Attention.of(module, q, options)
        documents, by_layer = self._call
        new = by_layer.setdefault(layer, [])
        rank, ranks = _rank_of_ranks()
        first = len(self._documents.get(layer, [])) * ranks + rank * len(documents)
        for number, document in enumerate(documents, first):
            rows_q, rows_k = document.rows_of(q).float(), document.rows_of(k).float()
            largest, sink = _scores(attention, rows_q, rows_k)
            rows_q, rows_k = (x.transpose(0, 1).cpu() for x in (rows_q, rows_k))
            position = torch.arange(document.start, document.end, dtype=torch.int32)
            moments = accumulate(rows_q, rows_k, position, buckets=self._width(), context_length=self._tokens)
            drawn = np.array(draw_tokens("uniform", self._width(), self._keys, 0, document.end, self._seed, number, layer, "k"))
            kept = drawn[drawn >= document.start]
            new.append(_Document(number, document.tokens, self._tokens, attention.window, largest, sink, moments,
                                 rows_k.numpy()[kept - document.start], kept))

    def _gather(self) -> dict[int, list[_Document]]:
        """The documents of all ranks by layer, in the order of their numbers, on rank 0; nothing on the others."""
        rank, ranks = _rank_of_ranks()
        if ranks == 1:
            return self._documents
        parts: list[dict[int, list[_Document]]] | None = [{} for _ in range(ranks)] if rank == 0 else None
        torch.distributed.gather_object(self._documents, parts)
        found: dict[int, list[_Document]] = {}
        for part in parts or []:
            for layer, documents in part.items():
                found.setdefault(layer, []).extend(documents)
        for layer, documents in found.items():
            self._tokens = documents[0].context
            fit = [d for d in documents if d.context == self._tokens]
            if len(fit) < len(documents):
                self._refuse(Unsupported(f"documents of a rank whose context is not of {self._tokens} tokens"))
            found[layer] = sorted(fit, key=lambda d: d.number)
        return found

    def _rows(self, layer: int, documents: list[_Document]) -> list[Row]:
        moments = documents[0].moments
        for d in documents[1:]:
            moments = moments.merge(d.moments)
        keys = np.concatenate([d.keys for d in documents])
        none = np.zeros(0, np.int32)
        heads = len(documents[0].largest)
        profiles = plasticity_profile(
            fit_queries(moments, self._covariance), np.zeros((0, heads, keys.shape[2]), keys.dtype), keys, none, none,
            key_positions=np.concatenate([d.positions for d in documents]),
            key_documents=np.repeat(np.arange(len(documents), dtype=np.int32), [len(d.positions) for d in documents]),
            window=documents[0].window)
        planes = planar_rotation(moments, context_length=self._tokens)
        rows: list[Row] = []
        for h in range(heads):
            ap = summarize(profiles[h], self._tokens)
            row = Row({"step": self.now, "layer": layer, "q_head": h, "max_logit": max(d.largest[h] for d in documents),
                        "sink_mass": sum(d.sink[h] for d in documents) / sum(d.tokens for d in documents),
                        "bias_context": planes[h].bias.context, "ap_overall": ap.overall.value,
                        "ap_first_20pct": ap.first20.value, "ap_last_20pct": ap.last20.value, "ap_drop": ap.drop.value})
            found = profiles[h].plasticity.tolist()
            row.update({f"ap_{b}": found[b] if b < len(found) else math.nan for b in range(self._buckets)})
            rows.append(row)
        return rows

    def _columns(self) -> bool:
        """Whether the file has its header. Raises ValueError where that is another's."""
        columns = [*([] if self._run is None else ["run"]), "step", "layer", "q_head", "max_logit", "sink_mass", "bias_context",
                   "ap_overall", "ap_first_20pct", "ap_last_20pct", "ap_drop", *(f"ap_{b}" for b in range(self._buckets))]
        if self._to is None or callable(self._to) or not os.path.exists(self._to):
            return False
        with open(self._to, newline="") as file:
            found = next(csv.reader(file), None)
        if found not in (None, columns):
            raise ValueError(f"{os.fspath(self._to)} has other columns than this monitor")
        return found is not None

    def _hand_out(self, rows: list[Row]) -> None:
        if self._to is None:
            return
        if callable(self._to):
            self._to(rows)
            return
        there = self._columns()
        with open(self._to, "a", newline="") as file:
            run = {} if self._run is None else {"run": self._run}
            writer = csv.DictWriter(file, [*run, *rows[0]])
            if not there:
                writer.writeheader()
            writer.writerows({**run, **{name: "" if math.isnan(x) else x for name, x in row.items()}} for row in rows)


def _rank_of_ranks() -> tuple[int, int]:
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def _scores(attention: Attention, q: torch.Tensor, k: torch.Tensor) -> tuple[list[float], list[float]]:
    """Per query head the largest scaled q . k over the keys that a query sees, and the sum over queries of the weight on
    token 0. q: (query heads, tokens, d), k: (key heads, tokens, d)."""
    largest = torch.full((q.shape[0],), -math.inf, device=q.device)
    mass = torch.zeros(q.shape[0], dtype=torch.float64, device=q.device)
    for scores, logits, total in attention.scores(q, k):
        largest = torch.maximum(largest, scores.amax((1, 2)))
        mass += torch.exp(logits[:, :, 0] - total).double().sum(1)
    return largest.tolist(), mass.tolist()
