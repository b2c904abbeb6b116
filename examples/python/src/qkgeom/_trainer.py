# SPDX-License-Identifier: MIT
"""The monitor in transformers' Trainer."""
from __future__ import annotations

import math
import os
import statistics
import sys
import typing

import transformers

from ._captures import Path
from ._monitor import Monitor
from ._renamed import Row

Scalars = typing.Callable[[int, typing.Dict[str, float]], None]

# Of the heads of a layer: name, column, and what the scalar is of its values.
_SCALARS: tuple[tuple[str, str, typing.Callable[[list[float]], float]], ...] = (
    ("max_logit", "max_logit", max), ("sink_mass", "sink_mass", statistics.fmean),
    ("bias_context", "bias_context", lambda values: statistics.fmean(map(abs, values))),
    ("plasticity", "ap_overall", statistics.fmean), ("plasticity_drop", "ap_drop", statistics.fmean))


def scalars_of(rows: list[Row]) -> dict[str, float]:
    """Five scalars a layer, `qkgeom/layer_3/plasticity` and so on: the largest max_logit, the mean |bias_context|, means of the others;
    none where no head has a value."""
    layers: dict[int, list[Row]] = {}
    for row in rows:
        layers.setdefault(int(row["layer"]), []).append(row)
    found = {}
    for layer, heads in layers.items():
        for name, column, of in _SCALARS:
            values = [x for x in (head[column] for head in heads) if not math.isnan(x)]
            if values:
                found[f"qkgeom/layer_{layer}/{name}"] = of(values)
    return found


class TrainerCallback(transformers.TrainerCallback):
    """Watches the heads of the model that transformers' Trainer trains: `Trainer(..., callbacks=[qkgeom.TrainerCallback()])`.

    Every `every` optimizer steps a `Monitor` takes a row per layer and head; steps are the Trainer's, also where it resumes.
    to: CSV file, or a function of the rows of a step; a file has the Trainer's run_name as its first column. scalars: a function of
    the step and of five scalars a layer by name (the largest max_logit, the mean |bias_context|, means of sink_mass, plasticity and
    plasticity_drop); None: TensorBoard and Weights & Biases where the Trainer reports to them. options: those of `Monitor`. Ranks of
    DDP and FSDP2 merge on rank 0, gradient accumulation counts all documents of the step, and evaluation changes nothing.
    """

    def __init__(self, every: int = 100, *, to: Path | typing.Callable[[list[Row]], None] | None = None,
                 scalars: Scalars | None = None, **options: typing.Any) -> None:
        self._every, self._to, self._scalars, self._options = every, to, scalars, options
        self._monitor: Monitor | None = None
        self._writer: typing.Any = None

    @property
    def skipped(self) -> dict[str, int]:
        """`Monitor.skipped` of the running or last training."""
        return {} if self._monitor is None else self._monitor.skipped

    def on_train_begin(self, args: typing.Any, state: typing.Any, control: typing.Any, model: typing.Any = None,
                       **kwargs: typing.Any) -> None:
        self._end()  # of a training that failed
        self._monitor = Monitor(model, self._every, to=self._to, run=args.run_name or os.path.basename(args.output_dir or ""),
                                first_step=state.global_step, **self._options)
        self._monitor.__enter__()

    def on_step_end(self, args: typing.Any, state: typing.Any, control: typing.Any, **kwargs: typing.Any) -> None:
        if self._monitor is None:
            return
        step = self._monitor.now
        rows = self._monitor.step()
        if rows:
            (self._scalars or (lambda at, found: self._report(args, at, found)))(step, scalars_of(rows))

    def on_train_end(self, args: typing.Any, state: typing.Any, control: typing.Any, **kwargs: typing.Any) -> None:
        self._end()

    def _end(self) -> None:
        if self._monitor is not None:
            self._monitor.__exit__()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _report(self, args: typing.Any, step: int, scalars: dict[str, float]) -> None:
        to = [args.report_to] if isinstance(args.report_to, str) else args.report_to or []
        wandb = sys.modules.get("wandb")
        if {"wandb", "all"} & set(to) and wandb is not None and wandb.run is not None:
            wandb.log({**scalars, "train/global_step": step})
        if {"tensorboard", "all"} & set(to):
            if self._writer is None:
                from torch.utils.tensorboard import SummaryWriter

                self._writer = SummaryWriter(_tensorboard_folder(args))
            for name, value in scalars.items():
                self._writer.add_scalar(name, value, step)


def _tensorboard_folder(args: typing.Any) -> str:
    given = os.environ.get("TENSORBOARD_LOGGING_DIR") or getattr(args, "logging_dir", None)
    return given or os.path.join(args.output_dir, "runs", "qkgeom")
