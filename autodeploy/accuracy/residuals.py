"""Where the error sits: predicted / measured by the values of some columns, and the worst rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodeploy.accuracy.compare import RunResult
from autodeploy.accuracy.loader import Run
from autodeploy.errors import InputError

DERIVED = ("report_group", "nodes", "micro_batches")
OUTCOMES = ("died", "said_died")


@dataclass(frozen=True, slots=True)
class Residual:
    """Ratios predicted / measured of the rows that share ``key``."""

    key: tuple[Any, ...]
    ratios: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(np.median(self.ratios))

    @property
    def mape(self) -> float:
        return float(np.mean(np.abs(np.array(self.ratios) - 1)))

    @property
    def spread(self) -> tuple[float, float]:
        return float(np.min(self.ratios)), float(np.max(self.ratios))


def column(result: RunResult, name: str) -> Any:
    """A column of the run, a key of its ``extra``, or a derived one."""
    run = result.run
    if name == "nodes":
        return -(-(run.num_devices or 0) // (run.devices_per_node or 8))
    if name == "micro_batches":
        return (run.global_batch or 0) // ((run.micro_batch or 1) * (run.dp or 1))
    if name == "died":
        return result.oom_measured
    if name == "said_died":
        return result.oom_predicted
    if name in Run.__dataclass_fields__ or name in DERIVED:
        return getattr(run, name)
    return run.extra.get(name)


def check_columns(results: Sequence[RunResult], names: Sequence[str]) -> None:
    extra = {key for result in results for key in result.run.extra}
    known = {*Run.__dataclass_fields__, *DERIVED, *OUTCOMES, *extra}
    for name in names:
        if name not in known:
            raise InputError("--by", name, f"one of {', '.join(sorted(known))}")


def residuals(results: Sequence[RunResult], names: Sequence[str], *, memory: bool = False) -> list[Residual]:
    """Ratios by the values of ``names``, ordered by those values."""
    check_columns(results, names)
    groups: dict[tuple[Any, ...], list[float]] = {}
    for result in results:
        error = result.memory_error_frac if memory else result.time_error_frac
        if error is not None:
            key = tuple(_hashable(column(result, name)) for name in names)
            groups.setdefault(key, []).append(1 + error)
    return [
        Residual(key, tuple(groups[key])) for key in sorted(groups, key=lambda k: tuple((str(type(v)), v) for v in k))
    ]


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else str(value)


def worst(results: Sequence[RunResult], count: int, *, memory: bool = False) -> list[RunResult]:
    """The rows with the largest error, worst first."""

    def size(result: RunResult) -> float:
        error = result.memory_error_frac if memory else result.time_error_frac
        return abs(error) if error is not None else -1.0

    return [r for r in sorted(results, key=size, reverse=True)[:count] if size(r) >= 0]


def describe(run: Run) -> str:
    """A run's strategy in the notation of the command line, as far as it is stated."""
    parts = [
        f"{name}{value}"
        for name, value in (
            ("TP", run.tp),
            ("PP", run.pp),
            ("VPP", run.vpp),
            ("CP", run.cp),
            ("EP", run.ep),
            ("DP", run.dp),
            ("MBS", run.micro_batch),
        )
        if value not in (None, 1) or name == "MBS"
    ]
    return "/".join(parts) + f" GBS{run.global_batch} S{run.seq_length} {run.recompute or '?'}"
