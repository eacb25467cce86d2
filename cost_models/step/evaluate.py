"""One training step of every strategy in a batch: time by cause along the critical rank, memory by cause of the fullest.

Axes: N strategies, S virtual stages, P pipeline ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.case import Case
from cost_models.flops import model_flop_per_token
from cost_models.step.group import PricedGroup, closed_form_groups, price_table
from cost_models.step.memory import CAUSES
from cost_models.step.memory_peaks import StepMemory, step_memory
from cost_models.step.stages import stage_costs
from cost_models.step.times import STEP_CAUSES, StepTimes, step_times
from cost_models.strategies import F64, I64, Bool, StrategyBatch


@dataclass(slots=True)
class StepCost:
    """Arrays [N] unless said. ``time_s`` sums to ``step_s``; ``memory_bytes`` sums to ``peak_reserved_bytes``."""

    step_s: F64
    peak_reserved_bytes: F64
    peak_allocated_bytes: F64
    memory_rank: I64
    critical_rank: I64
    feasible: Bool
    bubble_s: F64
    model_flop: F64  # per step, whole job
    time_s: dict[str, F64]
    memory_bytes: dict[str, F64]
    rank_busy_s: F64 | None = None  # [N, P], only with per_rank
    rank_memory_bytes: dict[str, F64] | None = None  # cause -> [N, P]


def evaluate(case: Case, batch: StrategyBatch, *, per_rank: bool = False) -> StepCost:
    """Prices a batch. One strategy is a batch of length 1. With ``per_rank`` the lists by rank are kept, padded to the
    largest pipeline of the batch."""
    result = _empty(case, batch, per_rank)
    for group in closed_form_groups(case, batch, price_table(case, batch)):
        costs = stage_costs(group)
        _take_times(result, group, step_times(costs, group))
        _take_memory(result, group, step_memory(costs, group))
    return result


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepPrice:
    """What a screen asks, [N] each: the same figures as in ``StepCost``, without causes."""

    step_s: F64
    peak_reserved_bytes: F64
    feasible: Bool


def price(case: Case, batch: StrategyBatch) -> StepPrice:
    """Step time and peak memory alone, for many strategies."""
    cost = evaluate(case, batch)
    return StepPrice(step_s=cost.step_s, peak_reserved_bytes=cost.peak_reserved_bytes, feasible=cost.feasible)


def _empty(case: Case, batch: StrategyBatch, per_rank: bool) -> StepCost:
    n, ranks = len(batch), int(batch.pp.max(initial=1))
    tokens = float(case.workload.global_batch) * case.workload.seq_length
    return StepCost(
        step_s=np.zeros(n), peak_reserved_bytes=np.zeros(n), peak_allocated_bytes=np.zeros(n),
        memory_rank=np.zeros(n, dtype=np.int64), critical_rank=np.zeros(n, dtype=np.int64),
        feasible=np.zeros(n, dtype=bool), bubble_s=np.zeros(n),
        model_flop=np.full(n, model_flop_per_token(case.model, case.workload) * tokens),
        time_s={cause: np.zeros(n) for cause in STEP_CAUSES}, memory_bytes={cause: np.zeros(n) for cause in CAUSES},
        rank_busy_s=np.zeros((n, ranks)) if per_rank else None,
        rank_memory_bytes={cause: np.zeros((n, ranks)) for cause in CAUSES} if per_rank else None,
    )  # fmt: skip


def _take_times(result: StepCost, group: PricedGroup, times: StepTimes) -> None:
    rows = group.rows
    for cause, seconds in times.by_cause.items():
        result.time_s[cause][rows] = seconds
    result.step_s[rows] = times.step_s
    result.bubble_s[rows] = times.by_cause["bubble"]
    result.critical_rank[rows] = times.critical_rank
    if result.rank_busy_s is not None:
        result.rank_busy_s[rows, : group.layout.pp] = times.busy_s


def _take_memory(result: StepCost, group: PricedGroup, memory: StepMemory) -> None:
    rows, at = group.rows, np.arange(len(group.rows))
    reserved = memory.reserved_bytes
    fullest = np.argmax(reserved, axis=1)
    result.memory_rank[rows] = fullest
    result.peak_reserved_bytes[rows] = reserved[at, fullest]
    result.peak_allocated_bytes[rows] = memory.allocated_bytes[at, fullest]
    result.feasible[rows] = reserved[at, fullest] <= group.case.hardware.usable_bytes
    for cause in CAUSES:
        result.memory_bytes[cause][rows] = memory.by_cause[cause][at, fullest]
        if result.rank_memory_bytes is not None:
            result.rank_memory_bytes[cause][rows, : group.layout.pp] = memory.by_cause[cause]
