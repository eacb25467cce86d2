"""Stages on three lanes, for schedules that run expert communication of one micro-batch under computing of another.

Axes: N strategies, S virtual stages, C columns of the price list.
"""

from __future__ import annotations

import numpy as np

from cost_models.layer_price import EP, FAMILY_INDEX
from cost_models.schedules.lanes import Direction, LaneCosts
from cost_models.step.group import PricedBatch
from cost_models.step.stages import StageCosts
from cost_models.strategies import DISPATCHER_CODE, F64, I64, RECOMPUTE_BIT, Bool

EXPERTS, MEMORY_BOUND, MOE = FAMILY_INDEX["experts"], FAMILY_INDEX["memory_bound"], RECOMPUTE_BIT["moe"]


def lane_costs(costs: StageCosts, group: PricedBatch, stage: I64) -> LaneCosts:
    """`costs`: distinct stages of which nothing is hidden; `stage` [N, all stages]: which of them each stage is. Computing
    slows while expert communication runs beside it."""
    prices = group.table.prices
    forward_ep = group.priced(prices.forward_s[:, :, EP])
    shares = lane_shares(group, group.case.workload.stack.hierarchical_chunks)
    inter, intra = (_ratio(group.on_stages(share * forward_ep), costs.forward_ep_s) for share in shares)
    slower = 1.0 + slowed_frac(costs, group)

    def every(part: F64) -> F64:
        """[N, S] -> [all stages, N]"""
        return np.ascontiguousarray(np.take_along_axis(part, stage, axis=1).T)

    def direction(compute_s: F64, experts_s: F64, ep_s: F64, sends: Bool) -> Direction:
        parts = (slower * compute_s, slower * experts_s, inter * ep_s, intra * ep_s)
        compute, experts, between, inside = (every(part) for part in parts)
        send = sends[:, None] * costs.p2p_s[None, :]
        return Direction(compute_s=compute, experts_s=experts, inter_s=between, intra_s=inside, send_s=send)

    gradient_ep = costs.backward_ep_s - costs.recompute_ep_s
    gradient = costs.backward_input_s - costs.recompute_s - gradient_ep
    forward_experts, backward_experts = (group.on_stages(part) for part in expert_module_s(group))
    at = np.arange(stage.shape[1])
    layers = group.geometry.each_row(group.geometry.counts.sum(axis=1))
    return LaneCosts(
        forward=direction(costs.forward_s - costs.forward_ep_s, forward_experts, costs.forward_ep_s, at < at[-1]),
        backward=direction(gradient, backward_experts, gradient_ep, at > 0),
        again=direction(
            costs.recompute_s - costs.recompute_ep_s, np.zeros_like(gradient), costs.recompute_ep_s, at < 0
        ),
        layers=every(np.broadcast_to(np.maximum(layers, 1.0), slower.shape)),
        weight_s=every(slower * costs.backward_weight_s),
    )


def expert_module_s(group: PricedBatch) -> tuple[F64, F64]:
    """Computing of the expert module, forward and backward for the input: the grouped products and its memory-bound work
    (permutation, activation, router), which is what recomputing the module runs again; [N, C]."""
    prices, table = group.table.prices, group.table
    forward, backward = group.priced(prices.forward_s), group.priced(prices.backward_input_s)
    module = prices.recompute_s[table.point, prices.masks.index(MOE)][:, :, MEMORY_BOUND]
    share = _ratio(module, forward[:, :, MEMORY_BOUND])
    return forward[:, :, EXPERTS] + module, backward[:, :, EXPERTS] + share * backward[:, :, MEMORY_BOUND]


def slowed_frac(costs: StageCosts, group: PricedBatch) -> F64:
    """How much slower a stage computes, by the share of the steady phase in which communication is beside it, [N, S]."""
    ep = costs.forward_ep_s + costs.backward_ep_s
    computing = costs.forward_s + costs.backward_s - ep
    beside = _ratio(np.minimum(ep, computing), computing)
    chunks = group.micro_batches * group.batch.vpp
    steady = np.maximum(0.0, (chunks - (group.batch.pp - 1)) / chunks)[:, None]
    return np.asarray(group.case.hardware.overheads.overlap_slowdown_frac * steady * beside)


def lane_shares(group: PricedBatch, pipelined: int) -> tuple[F64, F64]:
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
