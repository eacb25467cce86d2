"""Bases x ladder at a glance: exact peak memory, and seconds that a step takes at least.

Axes: B bases, R rungs of the ladder.
"""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.case import Case
from cost_models.step.evaluate import evaluate
from cost_models.strategies import F64, Ladder, StrategyBatch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """[B, R] each: no less than `least_step_s`, and exactly `peak_reserved_bytes` of the fullest rank."""

    least_step_s: F64
    peak_reserved_bytes: F64


def bounds(case: Case, bases: StrategyBatch, ladder: Ladder) -> Bounds:
    """Of every base under every rung; the bases' own recompute, swap and offload are not looked at."""
    cost = evaluate(case, ladder.expand(bases))
    shape = (len(bases), len(ladder))
    return Bounds(least_step_s=cost.step_s.reshape(shape), peak_reserved_bytes=cost.peak_reserved_bytes.reshape(shape))
