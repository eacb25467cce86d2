"""What no order of work avoids, of strategies of any layout and schedule: sums over the distinct ranks.

Axes: N strategies, S distinct stages, P distinct ranks.
"""

from __future__ import annotations

import numpy as np

from cost_models.layer_price import EP
from cost_models.schedules.least import RankSeconds, least_of_ranks_s
from cost_models.step.effects import with_effects_on_computing
from cost_models.step.geometry import most
from cost_models.step.group import PricedBatch
from cost_models.step.lanes import lane_shares, slowed_frac
from cost_models.step.pipeline import on_lanes, wait_for_sends
from cost_models.step.stages import StageCosts
from cost_models.strategies import F64


def least_of_pipeline_s(unaffected: StageCosts, after: StageCosts, group: PricedBatch) -> F64:
    """No more than `pipeline_s` of the same, [N]."""
    lanes = on_lanes(group)
    if lanes.all():
        return _least_s(_on_lanes(unaffected, group), group)
    least = _least_s(_one_after_another(after, group), group)
    rows = np.flatnonzero(lanes)
    if len(rows):
        own = group.take(rows)
        least[rows] = _least_s(_on_lanes(unaffected.take(rows), own), own)
    return least


def _least_s(ranks: RankSeconds, group: PricedBatch) -> F64:
    splits, plans = (group.has(fact)[:, None] for fact in ("splits_backward", "plans_with_costs"))
    return most(least_of_ranks_s(ranks, group.micro_batches[:, None], splits, plans))


def _one_after_another(costs: StageCosts, group: PricedBatch) -> RankSeconds:
    chain_s = group.work_by_rank(costs.forward_s + costs.backward_input_s)
    hop_s = costs.p2p_s[:, None]
    drained_s = costs.backward_input_s + np.where(group.has("splits_backward")[:, None], 0.0, costs.backward_weight_s)
    return RankSeconds(
        whole_s=chain_s + group.work_by_rank(costs.backward_weight_s), chain_s=chain_s,
        fill_s=group.before(costs.forward_s + hop_s), drain_s=group.before(drained_s + hop_s),
    )  # fmt: skip


def _on_lanes(unaffected: StageCosts, group: PricedBatch) -> RankSeconds:
    """The fullest of three lanes; sends, pieces and waits are left out."""
    costs, _ = wait_for_sends(with_effects_on_computing(unaffected, group).costs, group)
    prices = group.table.prices
    shares = lane_shares(group, group.case.workload.stack.hierarchical_chunks)
    forward_ep = group.priced(prices.forward_s[:, :, EP])
    on_wires = [_ratio(group.on_stages(share * forward_ep), costs.forward_ep_s) for share in shares]
    slower = 1.0 + slowed_frac(costs, group)
    forward = slower * (costs.forward_s - costs.forward_ep_s)
    backward = slower * (costs.backward_input_s - costs.backward_ep_s)
    again = slower * (costs.recompute_s - costs.recompute_ep_s)
    weight = slower * costs.backward_weight_s
    every_ep = costs.forward_ep_s + costs.backward_ep_s
    wires = np.maximum(*(group.work_by_rank(wire * every_ep) for wire in on_wires))
    compute = group.work_by_rank(forward + backward)
    fill = _fullest(forward, [wire * costs.forward_ep_s for wire in on_wires])
    gradient_ep = costs.backward_ep_s - costs.recompute_ep_s
    drain = _fullest(backward - again, [wire * gradient_ep for wire in on_wires])
    own = group.work_by_rank(weight)  # what of it the rank may put off is no more than this
    return RankSeconds(
        whole_s=np.maximum(compute + own, wires), chain_s=np.maximum(compute, wires), fill_s=group.before(fill),
        drain_s=np.maximum(group.before(drain) - own, 0.0),
    )  # fmt: skip


def _fullest(compute_s: F64, wires_s: list[F64]) -> F64:
    return np.maximum(compute_s, np.maximum(*wires_s))


def _ratio(part: F64, whole: F64) -> F64:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
