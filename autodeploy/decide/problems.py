"""The measured problems: reference runs of one case under several strategies, with what the twin says of each.

A problem: the runs of one source, software release, model, device, number of devices, sequence, batch and precision with
at least three different strategies, suspect rows left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autodeploy.accuracy.cases import RunCase, batch_of, build_cases
from autodeploy.accuracy.held_out import held_out_families
from autodeploy.accuracy.loader import Run, RunSet
from autodeploy.accuracy.predict import Prediction, predict
from autodeploy.decide.rows import Rows, levels_of, rows_of
from cost_models.strategies import F64

SMALLEST = 3  # different strategies that make a problem
KERNELS = ("", "unfused", "fused_softmax", "flash1", "flash2", "cudnn", "triton", "npu_flash")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """Measured and predicted, row by row. ``seen``: a fit of the cost model has used these rows."""

    name: str
    source: str
    kind: str
    runs: tuple[Run, ...]
    rows: Rows
    measured_s: F64
    seen: bool

    @property
    def complete(self) -> bool:
        """Nothing that the twin needs was assumed in any row."""
        return all(run.complete for run in self.runs)

    @property
    def log_ratio(self) -> F64:
        """log(measured / predicted), [N]."""
        return np.log(self.measured_s / self.rows.step_s)


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """One run with its case and its prediction: timed, or died."""

    case: RunCase
    prediction: Prediction
    seen: bool


def judged_runs(run_set: RunSet) -> list[Judged]:
    """Every run that is not suspect and can be predicted."""
    runs = [run for run in run_set.runs if not run.suspect]
    cases = build_cases(run_set, runs).cases
    predictions, _ = predict(cases)
    held_out = held_out_families(run_set.runs)
    return [
        Judged(case, predictions[case.run.id], case.run.family not in held_out)
        for case in cases
        if case.run.id in predictions
    ]


def problems_of(judged: Sequence[Judged]) -> list[Problem]:
    """The problems among them, in order of first appearance."""
    groups: dict[tuple, list[Judged]] = {}
    for one in judged:
        run = one.case.run
        if run.step_time_s is not None:
            key = (run.group, run.family, run.model, run.device, run.num_devices, run.seq_length, run.global_batch)
            groups.setdefault((*key, run.precision), []).append(one)
    found = [_problem(key, group) for key, group in groups.items()]
    return [problem for problem in found if len({row.tobytes() for row in problem.rows.levels}) >= SMALLEST]


def _problem(key: tuple, group: Sequence[Judged]) -> Problem:
    runs = tuple(one.case.run for one in group)
    return Problem(
        name="/".join(str(part) for part in (key[1], *key[4:7])),
        source=key[0],
        kind=runs[0].kind,
        runs=runs,
        rows=Rows.concatenate([row_of(one) for one in group]),
        measured_s=np.array([run.step_time_s for run in runs], dtype=float),
        seen=group[0].seen,
    )


def row_of(one: Judged) -> Rows:
    """The row of one run, of length 1."""
    case, prediction = one.case, one.prediction
    batch = batch_of([case.points[prediction.point]])
    time_s = {cause: np.array([seconds]) for cause, seconds in prediction.time_s.items()}
    row = rows_of(batch, time_s, np.array([prediction.reserved_bytes]), case.hardware.usable_bytes)
    kernel = KERNELS.index(case.workload.stack.attention_kernel) if case.workload.stack.attention_kernel in KERNELS else 0
    return Rows(
        causes=row.causes, time_s=row.time_s, levels=levels_of(batch, float(kernel)), mechanisms=row.mechanisms,
        usage=row.usage,
    )  # fmt: skip
