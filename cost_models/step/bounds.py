"""Bases x ladder at a glance: exact peak memory, and seconds that a step takes at least.

Everything but the pipeline is priced as `price` prices it; of the pipeline only what no order of work avoids.

Axes: B bases, R rungs of the ladder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.case import Case
from cost_models.step.group import PricedBatch, priced_batch
from cost_models.step.least import least_of_pipeline_s
from cost_models.step.memory_peaks import peak_reserved_bytes
from cost_models.step.stages import stage_costs
from cost_models.step.times import step_s
from cost_models.strategies import F64, I64, Ladder, StrategyBatch

BASES = 16384  # of which what no relief changes is kept at a time
BLOCK = 4096  # strategies worked on at a time: the arrays of a block stay in cache


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
    for start in range(0, len(order), BASES):
        rows = order[start : start + BASES]
        _look(priced.take(rows).in_order(), ladder.take(rows), rows, found)
    return found


def _look(own: PricedBatch, ladder: Ladder, rows: I64, found: Bounds) -> None:
    """Fills ``rows`` of ``found`` with the bases ``own``."""
    size = max(1, BLOCK // len(ladder))
    for first in range(0, len(rows), size):
        last = min(first + size, len(rows))
        some = own.under(ladder.take(slice(first, last)), first, last)
        costs, at = stage_costs(some), rows[first:last]
        least_s = step_s(costs, some, least_of_pipeline_s)
        found.least_step_s[at] = least_s.reshape(len(at), -1)
        found.peak_reserved_bytes[at] = peak_reserved_bytes(costs, some).reshape(len(at), -1)
