"""Activations held on each rank, by replaying allocations in the order of the operations."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.costs import StageMemory
from autodeploy.schedule.operations import F, Schedule

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
# What an operation of each kind (F, B, I, W) adds to the whole chunks of its stage, and to those that wait for W.
WHOLE, PARTLY = np.array([1, -1, -1, 0]), np.array([0, 0, 1, -1])


@lru_cache(maxsize=32)  # as many as graphs are kept
def live_chunks(schedule: Schedule) -> tuple[tuple[I64, I64, I64], ...]:
    """Per rank: its stages [V], and the distinct states it goes through: whole chunks, and chunks that wait for W, [rows, V].

    A chunk is whole from its F to its B or I. States below another in every count are left out.
    """
    result = []
    for low, high in pairwise(schedule.first.tolist()):
        ops = schedule.ops[low:high].reshape(-1, 3)  # a pair allocates its forward first
        kind, stage, _ = ops[ops[:, 0] >= 0].T
        stages, column = np.unique(stage, return_inverse=True)
        held = column.reshape(-1)[:, None] == np.arange(len(stages))
        whole = np.cumsum(held * WHOLE[kind][:, None], axis=0)
        partly = np.cumsum(held * PARTLY[kind][:, None], axis=0)
        states = np.unique(np.concatenate([whole, partly], axis=1)[kind == F], axis=0)
        rows = _undominated(states[::-1])
        result.append((stages.astype(np.int64), rows[:, : len(stages)], rows[:, len(stages) :]))
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
