"""Activations held on each rank, by replaying allocations in the order of the operations."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.costs import StageMemory
from autodeploy.schedule.operations import B, F, I, Schedule, W

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@lru_cache(maxsize=256)
def live_chunks(schedule: Schedule) -> tuple[tuple[I64, I64, I64], ...]:
    """Per rank: its stages [V], and the distinct states it goes through: whole chunks, and chunks that wait for W, [rows, V].

    A chunk is whole from its F to its B or I. States below another in every count are left out.
    """
    result = []
    for order in schedule.orders:
        stages = sorted({op[1] for slot in order for op in slot})
        column = {stage: at for at, stage in enumerate(stages)}
        live = [0] * (2 * len(stages))
        seen: set[tuple[int, ...]] = set()
        for slot in order:
            for kind, stage, _ in slot:  # a pair allocates its forward first
                at = column[stage]
                if kind == F:
                    live[at] += 1
                    seen.add(tuple(live))
                    continue
                if kind != W:
                    live[at] -= 1
                if kind != B:
                    live[len(stages) + at] += 1 if kind == I else -1
        rows = _undominated(np.array(sorted(seen, reverse=True)))
        result.append((np.array(stages), rows[:, : len(stages)], rows[:, len(stages) :]))
    return tuple(result)


def _undominated(rows: I64) -> I64:
    kept: list[int] = []
    for at in range(len(rows)):
        if not kept or not (rows[kept] >= rows[at]).all(axis=1).any():
            kept.append(at)
    return rows[kept]


def in_flight_chunks(schedule: Schedule) -> I64:
    """Most chunks on each rank whose input backward has not run, [P]."""
    return np.array([int(whole.sum(axis=1).max()) for _, whole, _ in live_chunks(schedule)])


def held_chunks(schedule: Schedule, weight_kept_frac: float) -> F64:
    """Most chunks held on each rank when a fraction stays until W, [P]."""
    return np.array([(w + weight_kept_frac * p).sum(axis=1).max() for _, w, p in live_chunks(schedule)])


def peak_activation_bytes(schedule: Schedule, memory: StageMemory) -> F64:
    """[N, P]."""
    peaks = []
    for stages, whole, partly in live_chunks(schedule):
        held = whole + memory.weight_kept_frac * partly
        peaks.append((memory.activation_bytes[:, stages] @ held.T).max(axis=1))
    return np.stack(peaks, axis=1)
