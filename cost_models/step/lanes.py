"""Stages on three lanes, for schedules that run expert communication of one micro-batch under computing of another.

Axes: N strategies, S virtual stages, C columns of the price list.
"""

from __future__ import annotations

import numpy as np

from cost_models.layer_price import EP, FAMILY_INDEX
from cost_models.schedules.lanes import Direction, LaneCosts
from cost_models.step.group import PricedBatch
from cost_models.step.stages import StageCosts
from cost_models.strategies import DISPATCHER_CODE, F64, RECOMPUTE_BIT

EXPERTS, MEMORY_BOUND, MOE = FAMILY_INDEX["experts"], FAMILY_INDEX["memory_bound"], RECOMPUTE_BIT["moe"]


def lane_parts(costs: StageCosts, group: PricedBatch) -> list[F64]:
    """What `lane_costs` takes, of distinct stages of which nothing is hidden, [N, S] each. Computing slows while expert
    communication runs beside it."""
    prices = group.table.prices
    forward_ep = group.priced(prices.forward_s[:, :, EP])
    shares = lane_shares(group, group.case.workload.stack.hierarchical_chunks)
    inter, intra = (_ratio(group.on_stages(share * forward_ep), costs.forward_ep_s) for share in shares)
    slower = 1.0 + slowed_frac(costs, group)
    gradient_ep = costs.backward_ep_s - costs.recompute_ep_s
    gradient = costs.backward_input_s - costs.recompute_s - gradient_ep
    forward_experts, backward_experts = (group.on_stages(part) for part in expert_module_s(group))
    layers = group.geometry.each_row(group.geometry.counts.sum(axis=1))
    computing = (
        costs.forward_s - costs.forward_ep_s, forward_experts, gradient, backward_experts,
        costs.recompute_s - costs.recompute_ep_s, costs.backward_weight_s,
    )  # fmt: skip
    communicating = (costs.forward_ep_s, gradient_ep, costs.recompute_ep_s)
    return [
        *(slower * part for part in computing), *(inter * part for part in communicating),
        *(intra * part for part in communicating), np.broadcast_to(np.maximum(layers, 1.0), slower.shape),
    ]  # fmt: skip


def lane_costs(parts: F64, p2p_s: F64) -> LaneCosts:
    """Of all stages, [parts, S, N]; every stage but the last sends forwards, every one but the first gradients."""
    forward, forward_experts, gradient, gradient_experts, again, weight_s, *wires, layers = parts
    sends, nothing = np.tile(p2p_s, (len(forward), 1)), np.zeros_like(forward)
    forward_sends, gradient_sends = sends, sends.copy()
    forward_sends[-1] = gradient_sends[0] = 0.0
    return LaneCosts(
        forward=Direction(
            compute_s=forward, experts_s=forward_experts, inter_s=wires[0], intra_s=wires[3], send_s=forward_sends
        ),
        backward=Direction(
            compute_s=gradient, experts_s=gradient_experts, inter_s=wires[1], intra_s=wires[4], send_s=gradient_sends
        ),
        again=Direction(compute_s=again, experts_s=nothing, inter_s=wires[2], intra_s=wires[5], send_s=nothing),
        weight_s=weight_s,
        layers=layers,
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
