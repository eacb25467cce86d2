"""A lower bound of a replayed step, from the causes of the closed form: what the critical rank computes, nothing else.

Axes: N strategies.
"""

from __future__ import annotations

from collections.abc import Mapping

from cost_models.strategies import F64

# Work of one lane that no schedule can hide and no move of the study (recompute, swap, offload, group) lessens.
UNAVOIDABLE = ("attention", "gemm", "experts", "memory_bound", "embedding", "head", "host")


def least_step_s(time_s: Mapping[str, F64]) -> F64:
    """Seconds [N] that a step takes at least: the critical rank's computing is one after the other, whatever waits."""
    return sum(time_s[cause] for cause in UNAVOIDABLE)  # type: ignore[return-value]
