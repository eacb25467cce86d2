"""Bases x ladder at a glance: exact peak memory, and seconds that a step takes at least.

Everything but the pipeline is priced as `price` prices it; of the pipeline only what no order of work avoids.

Axes: B bases, R rungs of the ladder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.case import Case
from cost_models.step.group import priced_batch
from cost_models.step.least import least_of_pipeline_s
from cost_models.step.memory_peaks import peak_reserved_bytes
from cost_models.step.stages import stage_costs
from cost_models.step.times import step_s
from cost_models.strategies import F64, Ladder, StrategyBatch

BLOCK = 8192  # strategies worked on at a time: the arrays of a block stay in cache


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """[B, R] each: no less than `least_step_s`, and exactly `peak_reserved_bytes` of the fullest rank."""

    least_step_s: F64
    peak_reserved_bytes: F64


def bounds(case: Case, bases: StrategyBatch, ladder: Ladder) -> Bounds:
    """Of every base under every rung; the bases' own recompute, swap and offload are not looked at."""
    shape = (len(bases), len(ladder))
    found = Bounds(least_step_s=np.zeros(shape), peak_reserved_bytes=np.zeros(shape))
    if not len(bases):
        return found
    priced = priced_batch(case, bases, also=np.flatnonzero(np.bincount(ladder.recompute.ravel())).tolist())
    order = np.lexsort([priced.geometry.of, bases.ep_overlap])  # alike beside alike
    size = max(1, BLOCK // len(ladder))
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        some = priced.take(rows).in_order().under(ladder.take(rows))
        costs = stage_costs(some)
        peak = peak_reserved_bytes(costs, some)
        found.least_step_s[rows] = step_s(costs, some, least_of_pipeline_s).reshape(len(rows), -1)
        found.peak_reserved_bytes[rows] = peak.reshape(len(rows), -1)
    return found
