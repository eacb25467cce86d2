"""Prices cases: runs that share model, machine and workload go through the cost models as one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodeploy.accuracy.cases import RunCase, batch_of
from cost_models.inputs import Workload

Evaluate = Callable[..., Any]  # cost_models.step.evaluate, or a stand-in with its signature
OUTSIDE_ALLOCATED = ("communication_buffers", "reserved_overhead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the twin says of one run. ``point``: which of the case's strategies was taken."""

    step_s: float
    allocated_bytes: float  # of the fullest rank, or of the fullest rank whose memory was measured
    reserved_bytes: float
    fits: bool  # the fullest rank's reserved bytes are within the card's usable memory
    point: int
    model_flop: float
    time_s: dict[str, float]


def predict(cases: Iterable[RunCase], evaluate: Evaluate | None = None) -> tuple[dict[str, Prediction], dict[str, str]]:
    """Predictions by run id, and the reason of every case that the cost models cannot price."""
    if evaluate is None:
        from cost_models.step import evaluate as cost_models_evaluate

        evaluate = cost_models_evaluate
    predictions: dict[str, Prediction] = {}
    failed: dict[str, str] = {}
    for group in grouped(cases):
        try:
            predictions.update(_price(group, evaluate))
        except (ValueError, KeyError, NotImplementedError) as error:
            if len(group) == 1:
                failed[group[0].run.id] = f"{type(error).__name__}: {error}"
                continue
            for case in group:  # one bad row must not take its neighbours along
                good, bad = predict([case], evaluate)
                predictions.update(good)
                failed.update(bad)
    return predictions, failed


def grouped(cases: Iterable[RunCase]) -> list[list[RunCase]]:
    """Cases that share model, machine, workload and the wish for memory by rank, in order of first appearance."""
    groups: dict[tuple[int, int, Workload, bool], list[RunCase]] = {}
    for case in cases:
        key = (id(case.model), id(case.hardware), case.workload, bool(case.memory_ranks))
        groups.setdefault(key, []).append(case)
    return list(groups.values())


def _price(group: list[RunCase], evaluate: Evaluate) -> dict[str, Prediction]:
    first = group[0]
    batch = batch_of(point for case in group for point in case.points)
    cost = evaluate(first.case, batch, per_rank=bool(first.memory_ranks))
    predictions, start = {}, 0
    for case in group:
        rows = slice(start, start + len(case.points))
        predictions[case.run.id] = _choose(case, cost, rows)
        start = rows.stop
    return predictions


def _choose(case: RunCase, cost: Any, rows: slice) -> Prediction:
    """The fastest strategy of the case that fits; the fastest of all where none does."""
    fits = np.asarray(cost.peak_reserved_bytes[rows]) <= case.hardware.usable_bytes
    step_s = np.asarray(cost.step_s[rows])
    point = int(np.argmin(np.where(fits, step_s, step_s + 1e12)))
    row = rows.start + point
    allocated, reserved = float(cost.peak_allocated_bytes[row]), float(cost.peak_reserved_bytes[row])
    if case.memory_ranks:
        allocated, reserved = _measured_ranks(cost, row, case.memory_ranks)
    return Prediction(
        step_s=float(step_s[point]),
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        fits=bool(fits[point]),
        point=point,
        model_flop=float(cost.model_flop[row]),
        time_s={cause: float(value[row]) for cause, value in cost.time_s.items()},
    )


def _measured_ranks(cost: Any, row: int, ranks: tuple[int, ...]) -> tuple[float, float]:
    """Allocated and reserved bytes of the fullest of ``ranks``."""
    by_rank = {cause: value[row, list(ranks)] for cause, value in cost.rank_memory_bytes.items()}
    reserved = sum(by_rank.values())
    allocated = sum(value for cause, value in by_rank.items() if cause not in OUTSIDE_ALLOCATED)
    return float(np.max(allocated)), float(np.max(reserved))
