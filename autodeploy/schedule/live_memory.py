"""Activations held on each rank, by replaying allocations in the order of the operations."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.costs import StageMemory
from autodeploy.schedule.operations import F, I, Schedule, W

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@lru_cache(maxsize=256)
def live_chunks(schedule: Schedule) -> tuple[tuple[I64, I64], ...]:
    """Per rank, the distinct states it goes through: whole chunks [rows, S] and chunks that wait for W [rows, S].

    A chunk is whole from its F to its B or I. States below another in every count are left out.
    """
    result = []
    for order in schedule.orders:
        whole, partly = np.zeros(schedule.stages, np.int64), np.zeros(schedule.stages, np.int64)
        seen: set[tuple[int, ...]] = set()
        for slot in order:
            for kind, stage, _ in slot:  # a pair allocates its forward first
                whole[stage] += {F: 1, W: 0}.get(kind, -1)
                partly[stage] += {I: 1, W: -1}.get(kind, 0)
                if kind == F:
                    seen.add((*whole, *partly))
            seen.add((*whole, *partly))
        rows = _undominated(np.array(sorted(seen, reverse=True)))
        result.append((rows[:, : schedule.stages], rows[:, schedule.stages :]))
    return tuple(result)


def _undominated(rows: I64) -> I64:
    used = rows[:, rows.any(axis=0)]
    kept: list[int] = []
    for at in range(len(rows)):
        if not any((used[k] >= used[at]).all() for k in kept):
            kept.append(at)
    return rows[kept]


def in_flight_chunks(schedule: Schedule) -> I64:
    """Most chunks on each rank whose input backward has not run, [P]."""
    return np.array([int(whole.sum(axis=1).max()) for whole, _ in live_chunks(schedule)])


def held_chunks(schedule: Schedule, weight_kept_frac: float) -> F64:
    """Most chunks held on each rank when a fraction stays until W, [P]."""
    return np.array([(w + weight_kept_frac * p).sum(axis=1).max() for w, p in live_chunks(schedule)])


def peak_activation_bytes(schedule: Schedule, memory: StageMemory) -> F64:
    """[N, P]."""
    peaks = []
    for whole, partly in live_chunks(schedule):
        held = whole + memory.weight_kept_frac * partly
        peaks.append((memory.activation_bytes @ held.T).max(axis=1))
    return np.stack(peaks, axis=1)
