"""The measured problems: reference runs of one case under several strategies, with what the twin says of each.

A problem: the runs of one source, software release, model, device, number of devices, sequence, batch and precision with
at least three different strategies, suspect rows left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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

    def take(self, index: Sequence[int]) -> Problem:
        """The rows at ``index``."""
        runs = tuple(self.runs[i] for i in index)
        return replace(
            self,
            runs=runs,
            rows=self.rows.take(np.array(index, dtype=np.intp)),
            measured_s=self.measured_s[list(index)],
        )

    @property
    def log_ratio(self) -> F64:
        """log(measured / predicted), [N]."""
        return np.log(self.measured_s / self.rows.step_s)


def complete_problems(problems: Sequence[Problem]) -> list[Problem]:
    """The problems that complete rows alone make: nothing that the twin needs was assumed in any of them."""
    parts = [problem.take([i for i, run in enumerate(problem.runs) if run.complete]) for problem in problems]
    return [part for part in parts if _strategies(part.rows) >= SMALLEST]


def _strategies(rows: Rows) -> int:
    return len({row.tobytes() for row in rows.levels})


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
    return [problem for problem in found if _strategies(problem.rows) >= SMALLEST]


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
    kernel = (
        KERNELS.index(case.workload.stack.attention_kernel) if case.workload.stack.attention_kernel in KERNELS else 0
    )
    return Rows(
        causes=row.causes, time_s=row.time_s, levels=levels_of(batch, float(kernel)), mechanisms=row.mechanisms,
        usage=row.usage,
    )  # fmt: skip
