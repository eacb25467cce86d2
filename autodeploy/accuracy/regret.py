"""How much slower the first choice runs than the best measured one, and whether machines are put in the right order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from autodeploy.accuracy.compare import RunResult
from autodeploy.accuracy.loader import Run
from autodeploy.accuracy.programs import release_of

FEWEST_STRATEGIES = 3
CLOSE_FRAC = 0.02  # machines measured closer than this have no order
STRATEGY = (
    "tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch", "sequence_parallel", "recompute", "recompute_modules",
    "zero_stage", "fsdp", "schedule", "ep_overlap", "moe_dispatcher", "pipeline_layout",
)  # fmt: skip

Seconds = Callable[[RunResult], float | None]


def as_configured(result: RunResult) -> float | None:
    """Predicted with the row's own software facts."""
    return result.predicted_step_time_s


def as_typed(result: RunResult) -> float | None:
    """Predicted as the command line would."""
    return result.typed.step_s if result.typed else None


@dataclass(frozen=True, slots=True)
class Problem:
    """Runs of one question: same source, release, model, machine, cards, sequence, batch, precision."""

    key: tuple
    results: tuple[RunResult, ...]

    @property
    def source(self) -> str:
        return str(self.key[0])

    @property
    def unseen(self) -> bool:
        """Whether any of its rows was kept out of every fit."""
        return any(not result.fitted_on for result in self.results)

    def regret(self, seconds: Seconds) -> float:
        """Measured time of the strategy that is predicted fastest over the best measured one, minus 1."""
        measured = np.array([result.run.step_time_s for result in self.results], dtype=np.float64)
        predicted = np.array([seconds(result) for result in self.results], dtype=np.float64)
        return float(measured[int(np.argmin(predicted))] / measured.min() - 1.0)


def question_of(run: Run) -> tuple:
    release = release_of(run)
    return (
        run.group, release, str(run.extra.get("framework", "")), run.model, run.device, run.num_devices,
        run.seq_length, run.global_batch, run.precision,
    )  # fmt: skip


def strategy_of(run: Run) -> tuple:
    return tuple(getattr(run, name) for name in STRATEGY)


def problems_of(results: Iterable[RunResult], seconds: Seconds) -> list[Problem]:
    """Every question with at least three different measured strategies; rows with a suspect mark are left out."""
    groups: dict[tuple, list[RunResult]] = {}
    for result in results:
        if result.run.step_time_s is not None and not result.run.suspect and seconds(result) is not None:
            groups.setdefault(question_of(result.run), []).append(result)
    return [
        Problem(key, tuple(rows))
        for key, rows in groups.items()
        if len({strategy_of(result.run) for result in rows}) >= FEWEST_STRATEGIES
    ]


@dataclass(frozen=True, slots=True)
class MachinePair:
    """Two machines on the same work. Rates are tokens/s of a card; ``right``: the prediction orders them as measured."""

    first: RunResult
    second: RunResult
    measured_ratio: float
    predicted_ratio: float

    @property
    def right(self) -> bool:
        return (self.measured_ratio > 1.0) == (self.predicted_ratio > 1.0)


def machine_pairs(results: Iterable[RunResult], seconds: Seconds, devices: Sequence[str]) -> list[MachinePair]:
    """Pairs of runs of one source, release, model, sequence and precision on two of the machines. For each machine its
    fastest run (tokens/s of a card) stands; pairs measured within 2% of each other do not count."""
    best: dict[tuple, dict[str, RunResult]] = {}
    for result in results:
        run = result.run
        if run.device not in devices or run.suspect or run.step_time_s is None or seconds(result) is None:
            continue
        key = (run.group, release_of(run), run.model, run.seq_length, run.precision)
        held = best.setdefault(key, {}).get(run.device)
        if held is None or _rate(run, run.step_time_s) > _rate(held.run, held.run.step_time_s or 1.0):
            best[key][run.device] = result
    pairs = [pair for machines in best.values() for pair in combinations(machines.values(), 2)]
    found = [_pair(first, second, seconds) for first, second in pairs]
    return [pair for pair in found if abs(np.log(pair.measured_ratio)) >= np.log(1.0 + CLOSE_FRAC)]


def _pair(first: RunResult, second: RunResult, seconds: Seconds) -> MachinePair:
    measured = _rate(first.run, first.run.step_time_s or 1.0) / _rate(second.run, second.run.step_time_s or 1.0)
    predicted = _rate(first.run, seconds(first) or 1.0) / _rate(second.run, seconds(second) or 1.0)
    return MachinePair(first, second, measured, predicted)


def _rate(run: Run, step_s: float) -> float:
    return (run.global_batch or 1) * (run.seq_length or 1) / step_s / (run.num_devices or 1)
