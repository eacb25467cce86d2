"""Zero-bubble schedules with one chunk a rank (Qi et al. 2023, arXiv 2401.10241)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cost_models.schedules.facts import F64, PipelineCosts, Schedule, steady_limit
from cost_models.schedules.one_f_one_b import ends_of_way, filled_or_worked_through, steady_paths
from cost_models.schedules.program import F, I, Op, W


def handcrafted_orders(pp: int, micro_batches: int, depth: int) -> list[list[Op]]:
    """ZB-H1 (depth 1) or ZB-H2 (depth 2): as 1F1B with `depth` times its warm-up; rank r holds back `depth` r weight parts,
    so that it fills its wait for the next rank at the end."""
    ranks = []
    for rank in range(pp):
        warm_up, weights = min(micro_batches, depth * (pp - rank - 1)), 0
        order = [(F, rank, i) for i in range(warm_up)]
        for i in range(micro_batches):
            if warm_up + i < micro_batches:
                order.append((F, rank, warm_up + i))
            order.append((I, rank, i))
            if i >= depth * rank:
                order.append((W, rank, weights))
                weights += 1
        ranks.append(order + [(W, rank, i) for i in range(weights, micro_batches)])
    return ranks


def h1_orders(pp: int, vpp: int, micro_batches: int, group: int) -> list[list[Op]]:
    return handcrafted_orders(pp, micro_batches, 1)


def h2_orders(pp: int, vpp: int, micro_batches: int, group: int) -> list[list[Op]]:
    return handcrafted_orders(pp, micro_batches, 2)


def _zero_bubble(depth: int, held_back: int) -> Callable[[PipelineCosts], F64]:
    """ZB orders with `depth` (p-1-q) warm-up forwards on rank q and `held_back` q weight parts for the end."""

    def seconds(c: PipelineCosts) -> F64:
        m, hop = c.micro_batches, c.p2p_s
        forward, backward, weight = c.forward_s, c.input_s, c.weight_s
        both, rank = forward + backward, np.arange(c.pp)[:, None]
        (fill, _), (drain, _) = ends_of_way(forward + hop), ends_of_way(backward + hop)
        _, after = ends_of_way(both + 2 * hop)
        w, late = np.minimum(m - 1, depth * (c.pp - 1 - rank)), np.minimum(m, held_back * rank + 1)
        start = fill + np.maximum(0.0, after - w * forward)
        inputs = start + m * both
        last_input = inputs + (m - late) * weight + drain + weight[0]
        return_trip = inputs + np.maximum(0, m - w - late) * weight + drain + np.maximum(0.0, after - w * backward)
        best = np.maximum(inputs + m * weight, np.maximum(last_input, return_trip)).max(axis=0)
        shallow = steady_paths(c, forward, backward) if depth == 1 else _two_deep_paths(c)
        return np.maximum(best, shallow + weight[0])

    return lambda c: filled_or_worked_through(c, seconds, h1_orders if depth == 1 else h2_orders)


def _two_deep_paths(c: PipelineCosts) -> F64:
    """Longest path on one rank with 2(p-1-q) warm-up forwards; neighbours no longer hold each other up."""
    m, both = c.micro_batches, c.forward_s + c.input_s
    before, after = ends_of_way(both + 2 * c.p2p_s)
    w = np.minimum(m - 1, 2 * (c.pp - 1 - np.arange(c.pp)[:, None]))
    ends = np.maximum(w * c.forward_s, after) + np.maximum(w * c.input_s, after)
    return np.asarray((before + (m - w) * both + ends).max(axis=0))


ZB_H1 = Schedule(
    name="zb-h1",
    closed_form=_zero_bubble(1, 1),
    in_flight=steady_limit(lambda p: p),
    limit_only=True,
    order="zb_h1:zero_bubble_h1",
    splits_backward=True,
    searched_by=("any",),
    aliases=("zero-bubble",),
)

ZB_1P = Schedule(
    name="zb-1p",
    closed_form=_zero_bubble(1, 2),
    in_flight=steady_limit(lambda p: p),
    limit_only=True,
    order="zb_auto:zero_bubble_1p",
    splits_backward=True,
    plans_with_costs=True,
    aliases=("zero-bubble (zbb)",),
)

ZB_2P = Schedule(
    name="zb-2p",
    closed_form=_zero_bubble(2, 4),
    in_flight=steady_limit(lambda p: 2 * p),
    limit_only=True,
    order="zb_auto:zero_bubble_2p",
    splits_backward=True,
    plans_with_costs=True,
)
