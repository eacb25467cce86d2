"""Zero-bubble schedules with one chunk a rank (Qi et al. 2023, arXiv 2401.10241)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cost_models.schedules.facts import F64, PipelineCosts, Schedule, steady_limit
from cost_models.schedules.one_f_one_b import steady_paths


def _zero_bubble(depth: int, held_back: int) -> Callable[[PipelineCosts], F64]:
    """ZB orders with `depth` (p-1-q) warm-up forwards on rank q and `held_back` q weight parts for the end."""

    def seconds(c: PipelineCosts) -> F64:
        p, m, hop = c.pp, c.micro_batches, c.p2p_s
        both = c.forward_s + c.input_s
        fill, drain = np.zeros_like(hop), np.zeros_like(hop)
        after = both.sum(0) + 2 * p * hop
        best = np.zeros_like(hop)
        for q in range(p):
            after = after - both[q] - 2 * hop
            forward, backward, weight = c.forward_s[q], c.input_s[q], c.weight_s[q]
            w, late = np.minimum(m - 1, depth * (p - 1 - q)), np.minimum(m, held_back * q + 1)
            start = fill + np.maximum(0.0, after - w * forward)
            whole = start + m * (both[q] + weight)
            last_input = start + m * both[q] + (m - late) * weight + drain + c.weight_s[0]
            return_trip = start + m * both[q] + np.maximum(0, m - w - late) * weight + drain
            return_trip = return_trip + np.maximum(0.0, after - w * backward)
            best = np.maximum(best, np.maximum(whole, np.maximum(last_input, return_trip)))
            fill, drain = fill + forward + hop, drain + backward + hop
        shallow = steady_paths(c, c.forward_s, c.input_s) if depth == 1 else _two_deep_paths(c)
        return np.maximum(best, shallow + c.weight_s[0])

    return seconds


def _two_deep_paths(c: PipelineCosts) -> F64:
    """Longest path on one rank with 2(p-1-q) warm-up forwards; neighbours no longer hold each other up."""
    p, m, hop = c.pp, c.micro_batches, c.p2p_s
    both = c.forward_s + c.input_s
    before, best = np.zeros_like(hop), np.zeros_like(hop)
    after = both.sum(0) + 2 * p * hop
    for q in range(p):
        after = after - both[q] - 2 * hop
        w = np.minimum(m - 1, 2 * (p - 1 - q))
        ends = np.maximum(w * c.forward_s[q], after) + np.maximum(w * c.input_s[q], after)
        best = np.maximum(best, before + (m - w) * both[q] + ends)
        before = before + both[q] + 2 * hop
    return best


ZB_H1 = Schedule(
    name="zb-h1",
    closed_form=_zero_bubble(1, 1),
    in_flight=steady_limit(lambda p: p),
    limit_only=True,
    order="zb_h1:zero_bubble_h1",
    searched=True,
    aliases=("zero-bubble",),
)

ZB_1P = Schedule(
    name="zb-1p",
    closed_form=_zero_bubble(1, 2),
    in_flight=steady_limit(lambda p: p),
    limit_only=True,
    order="zb_auto:zero_bubble_1p",
    plans_with_costs=True,
    aliases=("zero-bubble (zbb)",),
)

ZB_2P = Schedule(
    name="zb-2p",
    closed_form=_zero_bubble(2, 4),
    in_flight=steady_limit(lambda p: 2 * p),
    limit_only=True,
    order="zb_auto:zero_bubble_2p",
    plans_with_costs=True,
)
