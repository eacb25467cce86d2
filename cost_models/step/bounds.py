"""Bases x ladder at a glance: exact peak memory, and seconds that a step takes at least.

Everything but the pipeline is priced as `price` prices it; of the pipeline only what no order of work avoids.

Axes: B bases, R rungs of the ladder.
"""

from __future__ import annotations

import numpy as np

from cost_models.case import Case
from cost_models.records import record
from cost_models.step.group import PricedBatch, priced_batch
from cost_models.step.least import least_of_pipeline_s
from cost_models.step.memory_peaks import peak_reserved_bytes
from cost_models.step.stages import stage_costs
from cost_models.step.times import step_s
from cost_models.strategies import F64, Ladder, StrategyBatch

BLOCK = 4096  # strategies worked on at a time: the arrays of a block stay in cache


@record(eq=False)
class Bounds:
    """[B, R] each: no less than `least_step_s`, and exactly `peak_reserved_bytes` of the fullest rank."""

    least_step_s: F64
    peak_reserved_bytes: F64


def bounds(case: Case, bases: StrategyBatch, ladder: Ladder, most_bytes: float = np.inf) -> Bounds:
    """Of every base under every rung; the bases' own recompute, swap and offload are not looked at. Of what needs more than
    ``most_bytes`` nobody asks the time: 0."""
    shape = (len(bases), len(ladder))
    found = Bounds(least_step_s=np.zeros(shape), peak_reserved_bytes=np.zeros(shape))
    if not len(bases):
        return found
    priced = priced_batch(case, bases, also=np.flatnonzero(np.bincount(ladder.recompute.ravel())).tolist())
    sizes = np.array([one.onto.size for one in priced.geometry.each])[priced.geometry.of]
    order = np.lexsort([priced.geometry.of, sizes, bases.ep_overlap])  # alike beside alike, small beside small
    for start in range(0, len(order), BLOCK):
        rows = order[start : start + BLOCK]
        own, steps = priced.take(rows).in_order(), ladder.take(rows)
        count = max(1, BLOCK // len(rows))
        for first in range(0, len(ladder), count):
            rungs = slice(first, first + count)
            least_s, peak = _look(own.under(steps.part(rungs)), most_bytes)
            found.least_step_s[rows, rungs] = least_s.reshape(-1, len(rows)).T
            found.peak_reserved_bytes[rows, rungs] = peak.reshape(-1, len(rows)).T
    return found


def _look(some: PricedBatch, most_bytes: float) -> tuple[F64, F64]:
    """Least seconds and exact bytes, [N] each."""
    costs = stage_costs(some)
    peak = peak_reserved_bytes(costs, some)
    timed = np.flatnonzero(peak <= most_bytes)
    if len(timed) > WORTH_ALL * len(peak):
        return step_s(costs, some, least_of_pipeline_s), peak
    least_s = np.zeros(len(peak))
    if len(timed):
        least_s[timed] = step_s(costs.take(timed), some.take(timed), least_of_pipeline_s)
    return least_s, peak


WORTH_ALL = 0.7  # of a block: where more of it fit, all are timed rather than the few left out
