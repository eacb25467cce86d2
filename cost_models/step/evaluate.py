"""One training step of every strategy in a batch: time by cause along the critical rank, memory by cause of the fullest.

Axes: N strategies, S virtual stages, P pipeline ranks.
"""

from __future__ import annotations

import numpy as np

from cost_models.case import Case
from cost_models.flops import model_flop_per_token
from cost_models.records import record
from cost_models.step.group import priced_batch
from cost_models.step.in_flight import first_ranks, fullest_ranks
from cost_models.step.memory import CAUSES
from cost_models.step.memory_peaks import StepMemory, peak_reserved_bytes, step_memory
from cost_models.step.stages import stage_costs
from cost_models.step.times import STEP_CAUSES, step_s, step_times
from cost_models.strategies import F64, I64, Bool, StrategyBatch


@record(eq=False)
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
    if not len(batch):
        return _nothing(per_rank)
    priced = priced_batch(case, batch, whole=per_rank)
    costs = stage_costs(priced)
    times, memory = step_times(costs, priced), step_memory(costs, priced)
    at, fullest = np.arange(len(batch)), np.argmax(memory.reserved_bytes, axis=1)
    peak = memory.reserved_bytes[at, fullest]
    tokens = float(case.workload.global_batch) * case.workload.seq_length
    return StepCost(
        step_s=times.step_s,
        peak_reserved_bytes=peak,
        peak_allocated_bytes=memory.allocated_bytes[at, fullest],
        memory_rank=fullest_ranks(priced)[at, fullest],
        critical_rank=first_ranks(priced)[at, times.critical_rank],
        feasible=peak <= case.hardware.usable_bytes,
        bubble_s=times.by_cause["bubble"],
        model_flop=np.full(len(batch), model_flop_per_token(case.model, case.workload) * tokens),
        time_s=times.by_cause,
        memory_bytes={cause: memory.by_cause[cause][at, fullest] for cause in CAUSES},
        rank_busy_s=times.busy_s if per_rank else None,
        rank_memory_bytes=_by_rank(memory, batch) if per_rank else None,
    )


def _nothing(per_rank: bool) -> StepCost:
    """Of no strategy."""
    none, ranks = np.zeros(0), np.zeros((0, 1))
    return StepCost(
        step_s=none, peak_reserved_bytes=none, peak_allocated_bytes=none, memory_rank=none.astype(np.int64),
        critical_rank=none.astype(np.int64), feasible=none.astype(bool), bubble_s=none, model_flop=none,
        time_s=dict.fromkeys(STEP_CAUSES, none), memory_bytes=dict.fromkeys(CAUSES, none),
        rank_busy_s=ranks if per_rank else None, rank_memory_bytes=dict.fromkeys(CAUSES, ranks) if per_rank else None,
    )  # fmt: skip


def _by_rank(memory: StepMemory, batch: StrategyBatch) -> dict[str, F64]:
    """[N, P] by cause: nothing on the ranks that a strategy has not."""
    there = np.arange(memory.reserved_bytes.shape[1]) < batch.pp[:, None]
    return {cause: np.where(there, memory.by_cause[cause], 0.0) for cause in CAUSES}


@record(eq=False)
class StepPrice:
    """What a screen asks, [N] each: the same figures as in ``StepCost``, without causes."""

    step_s: F64
    peak_reserved_bytes: F64
    feasible: Bool


def price(case: Case, batch: StrategyBatch) -> StepPrice:
    """Step time and peak memory alone, for many strategies."""
    if not len(batch):
        return StepPrice(step_s=np.zeros(0), peak_reserved_bytes=np.zeros(0), feasible=np.zeros(0, dtype=bool))
    priced = priced_batch(case, batch)
    costs = stage_costs(priced)
    peak = peak_reserved_bytes(costs, priced)
    return StepPrice(
        step_s=step_s(costs, priced), peak_reserved_bytes=peak, feasible=peak <= case.hardware.usable_bytes
    )
