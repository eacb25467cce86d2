"""Scenarios that one graph may replay together without a trace of each other: the law of all prices.

What a scenario costs must not depend on what is replayed beside it. Two things of a graph do depend on costs: which
segments a layer has (an absent one leaves no node), and the order that an automatic schedule plans. Scenarios that
differ in either are replayed apart.

Axes: N scenarios, S virtual stages.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.costs import LayerSegments
from autodeploy.schedule.operations import OrderCosts
from autodeploy.schedule.request import SimulationRequest

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
PLAN_DIGITS = 6  # of the costs that an order is planned with: the dust of summing in another order plans nothing


def parts_alike(segments: LayerSegments, plan_s: F64 | None) -> list[I64]:
    """Rows [n] of each part, in order of first appearance; `plan_s` [N, 3 S + 1]: what an automatic schedule plans with."""
    count = segments.seconds.shape[0]
    keys = np.packbits((segments.seconds > 0).reshape(count, -1), axis=1)
    if plan_s is not None:
        planned = np.ascontiguousarray(plan_s).view(np.uint8).reshape(count, -1)
        keys = np.concatenate([keys, planned], axis=1)
    parts: dict[bytes, list[int]] = {}
    for row, key in enumerate(keys):
        parts.setdefault(key.tobytes(), []).append(row)
    return [np.array(rows) for rows in parts.values()]


def plan_costs_s(request: SimulationRequest) -> F64:
    """[N, 3 S + 1]: forward, input and weight backward of each stage, then the hop, to `PLAN_DIGITS` digits."""
    stage = request.segments.stage_costs()
    count = request.scenarios
    hop = np.asarray(request.p2p_s, dtype=np.float64)
    hop = hop.mean(axis=1) if hop.ndim == 2 else np.broadcast_to(hop, (count,))
    costs = [stage.forward_s, stage.backward_input_s, stage.backward_weight_s, hop[:, None]]
    seconds = np.concatenate(costs, axis=1)
    largest = seconds.max(axis=1, keepdims=True)
    unit = 10.0 ** (np.floor(np.log10(np.where(largest > 0, largest, 1.0))) + 1 - PLAN_DIGITS)
    return np.asarray(np.round(seconds / unit) * unit)


def order_costs(plan_s: F64, weight_kept_frac: float) -> OrderCosts:
    """One row of `plan_costs_s`."""
    stages = (len(plan_s) - 1) // 3
    forward, inputs, weights = plan_s[:-1].reshape(3, stages).tolist()
    return OrderCosts(
        forward_s=tuple(forward),
        backward_input_s=tuple(inputs),
        backward_weight_s=tuple(weights),
        p2p_s=float(plan_s[-1]),
        weight_kept_frac=weight_kept_frac,
    )


def first_best(seconds: F64) -> I64:
    """Index of the shortest of [K, N] for each scenario: the first of those that are equal but for rounding."""
    seconds = np.asarray(seconds)
    least = seconds.min(axis=0)
    return np.asarray(np.argmax(seconds <= least + 1e-9 * np.abs(least), axis=0), dtype=np.int64)
