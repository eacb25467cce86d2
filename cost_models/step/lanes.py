"""Stages on three lanes, for schedules that run expert communication of one micro-batch under computing of another.

Axes: N strategies, S virtual stages, C columns of the price list.
"""

from __future__ import annotations

import numpy as np

from cost_models.layer_price import EP, FAMILY_INDEX
from cost_models.schedules.lanes import Direction, LaneCosts
from cost_models.step.group import PricedGroup
from cost_models.step.stages import StageCosts
from cost_models.strategies import DISPATCHER_CODE, F64, RECOMPUTE_BIT

EXPERTS, MEMORY_BOUND, MOE = FAMILY_INDEX["experts"], FAMILY_INDEX["memory_bound"], RECOMPUTE_BIT["moe"]


def lane_costs(costs: StageCosts, group: PricedGroup) -> LaneCosts:
    """`costs`: stages of which nothing is hidden. Computing slows while expert communication runs beside it."""
    prices, counts = group.table.prices, group.layout.counts.T
    forward_ep = group.priced(prices.forward_s[:, :, EP])
    shares = lane_shares(group, group.case.workload.stack.hierarchical_chunks)
    inter, intra = (_ratio((share * forward_ep) @ counts, costs.forward_ep_s) for share in shares)
    slower = 1.0 + slowed_frac(costs, group)

    def direction(compute_s: F64, experts_s: F64, ep_s: F64, sends: F64) -> Direction:
        parts = (slower * compute_s, slower * experts_s, inter * ep_s, intra * ep_s, costs.p2p_s[:, None] * sends)
        compute, experts, between, inside, send = (np.ascontiguousarray(part.T) for part in parts)
        return Direction(compute_s=compute, experts_s=experts, inter_s=between, intra_s=inside, send_s=send)

    gradient_ep = costs.backward_ep_s - costs.recompute_ep_s
    gradient = costs.backward_input_s - costs.recompute_s - gradient_ep
    forward_experts, backward_experts = (part @ counts for part in expert_module_s(group))
    stage = np.arange(len(group.layout.counts), dtype=np.float64)
    return LaneCosts(
        forward=direction(
            costs.forward_s - costs.forward_ep_s,
            forward_experts,
            costs.forward_ep_s,
            (stage < stage[-1]).astype(np.float64),
        ),
        backward=direction(gradient, backward_experts, gradient_ep, (stage > 0).astype(np.float64)),
        again=direction(
            costs.recompute_s - costs.recompute_ep_s, np.zeros_like(gradient), costs.recompute_ep_s, 0 * stage
        ),
        layers=np.maximum(group.layout.counts.sum(axis=1), 1.0)[:, None],
        weight_s=np.ascontiguousarray((slower * costs.backward_weight_s).T),
    )


def expert_module_s(group: PricedGroup) -> tuple[F64, F64]:
    """Computing of the expert module, forward and backward for the input: the grouped products and its memory-bound work
    (permutation, activation, router), which is what recomputing the module runs again; [N, C]."""
    prices, table = group.table.prices, group.table
    forward, backward = group.priced(prices.forward_s), group.priced(prices.backward_input_s)
    module = prices.recompute_s[table.point, prices.masks.index(MOE)][:, :, MEMORY_BOUND]
    share = _ratio(module, forward[:, :, MEMORY_BOUND])
    return forward[:, :, EXPERTS] + module, backward[:, :, EXPERTS] + share * backward[:, :, MEMORY_BOUND]


def slowed_frac(costs: StageCosts, group: PricedGroup) -> F64:
    """How much slower a stage computes, by the share of the steady phase in which communication is beside it, [N, S]."""
    ep = costs.forward_ep_s + costs.backward_ep_s
    computing = costs.forward_s + costs.backward_s - ep
    beside = _ratio(np.minimum(ep, computing), computing)
    chunks = group.micro_batches * group.layout.vpp
    steady = np.maximum(0.0, (chunks - (group.layout.pp - 1)) / chunks)[:, None]
    return np.asarray(group.case.hardware.overheads.overlap_slowdown_frac * steady * beside)


def lane_shares(group: PricedGroup, pipelined: int) -> tuple[F64, F64]:
    """(inter, intra) as parts of the seconds of one dispatch, [N, C].

    A flat all-to-all uses its tiers at the same time: it takes the lane that decides. A hierarchical one takes both.
    """
    prices = group.table.prices
    inter, intra = group.priced(prices.dispatch_inter_s), group.priced(prices.dispatch_intra_s)
    both = (group.batch.dispatcher >= DISPATCHER_CODE["hierarchical-allgather"])[:, None]
    total = inter + intra
    if pipelined > 1:
        total = np.maximum(inter, intra) + np.minimum(inter, intra) / pipelined
    decides = (inter >= intra).astype(np.float64)
    inter_share = np.where(both, _ratio(inter, total), decides)
    intra_share = np.where(both, _ratio(intra, total), 1.0 - decides)
    return inter_share, np.where(both & (total <= 0), 1.0, intra_share)


def _ratio(part: F64, whole: F64) -> F64:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
