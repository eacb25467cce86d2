"""From price list to virtual stages: seconds and bytes of each stage for the strategies of one layout.

Axes: N strategies, S virtual stages, P ranks, C columns of the price list, F families.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from cost_models.communication import p2p_s, ring_s
from cost_models.layer_price import EP
from cost_models.step.group import FULL, PricedGroup
from cost_models.strategies import F64, I64, Layout, StrategyBatch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageCosts:
    """Seconds per micro-batch and saved bytes of each virtual stage, [N, S]; p2p of one boundary, [N]."""

    forward_s: F64
    backward_input_s: F64  # recompute included
    backward_weight_s: F64
    forward_ep_s: F64  # the expert-communication part of the layers' forward
    backward_ep_s: F64
    recompute_s: F64  # of backward_input_s
    recompute_ep_s: F64  # of backward_ep_s
    saved_bytes: F64
    swapped_bytes: F64  # of saved_bytes, what the strategy keeps on the host
    p2p_s: F64
    full_share: F64  # [N, S] share of a stage's layers under full recompute (blend of two masks)

    def take(self, rows: I64) -> StageCosts:
        """Some of the strategies."""
        return StageCosts(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})

    @property
    def backward_s(self) -> F64:
        return self.backward_input_s + self.backward_weight_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Taken:
    """What an effect adds to each stage under a cause of the step's time (negative: takes out), seconds [N, S]."""

    cause: str
    forward_s: F64
    backward_input_s: F64
    backward_weight_s: F64

    @staticmethod
    def between(cause: str, before: StageCosts, after: StageCosts) -> Taken:
        return Taken(
            cause=cause,
            forward_s=after.forward_s - before.forward_s,
            backward_input_s=after.backward_input_s - before.backward_input_s,
            backward_weight_s=after.backward_weight_s - before.backward_weight_s,
        )

    @property
    def seconds(self) -> F64:
        """Both directions, [N, S]."""
        return self.forward_s + self.backward_input_s + self.backward_weight_s


def stage_costs(group: PricedGroup) -> StageCosts:
    """Contracts the price list with the layer counts of the layout."""
    prices, counts = group.table.prices, group.layout.counts.T  # [C, S]
    share = full_share(group.batch, group.layout)
    again = _blend(prices.recompute_s.sum(axis=3), group, share)
    again_ep = _blend(prices.recompute_s[:, :, :, EP], group, share)
    backward_ep = group.priced(prices.backward_input_s[:, :, EP]) @ counts
    return StageCosts(
        forward_s=group.priced(prices.forward_s.sum(axis=2)) @ counts,
        backward_input_s=group.priced(prices.backward_input_s.sum(axis=2)) @ counts + again,
        backward_weight_s=group.priced(prices.backward_weight_s.sum(axis=2)) @ counts,
        forward_ep_s=group.priced(prices.forward_s[:, :, EP]) @ counts,
        backward_ep_s=backward_ep + again_ep,
        recompute_s=again,
        recompute_ep_s=again_ep,
        saved_bytes=_blend(prices.saved_bytes, group, share),
        swapped_bytes=_swapped(group, share),
        p2p_s=boundary_s(group),
        full_share=share,
    )


def _swapped(group: PricedGroup, share: F64) -> F64:
    if not group.batch.swap_frac.any():
        return np.zeros((len(group.batch), len(group.layout.counts)))
    return group.batch.swap_frac[:, None] * _blend(group.table.prices.swappable_bytes, group, share)


def full_share(batch: StrategyBatch, layout: Layout) -> F64:
    """Share of each stage's layers that "full" covers: all of them, or the first ``recompute_layers``. [N, S]."""
    layers = np.maximum(layout.layers_per_stage, 1.0)[None, :]
    limit = batch.recompute_layers[:, None].astype(float)
    covered = np.where(limit > 0, np.minimum(limit / layers, 1.0), 1.0)
    return np.where((batch.recompute & FULL)[:, None] > 0, covered, 1.0)


def _blend(by_mask: F64, group: PricedGroup, share: F64) -> F64:
    """[U, M, C] -> [N, S]: the masked value on the covered share of layers, the plain one on the rest."""
    table, counts = group.table, group.layout.counts.T
    covered = by_mask[table.point, table.mask] @ counts
    if (share == 1.0).all():
        return covered
    return share * covered + (1.0 - share) * (by_mask[table.point, table.plain] @ counts)


def boundary_s(group: PricedGroup) -> F64:
    """Seconds to hand one micro-batch's activations to the next stage, [N]."""
    batch, workload, hardware = group.batch, group.case.workload, group.case.hardware
    tokens = batch.micro_batch * workload.seq_length / batch.cp
    size = 2.0 * tokens * group.case.model.hidden
    split = batch.sequence_parallel | workload.stack.scatter_gather_p2p
    sent = np.where(split, size / batch.tp, size)
    stride = (batch.tp * batch.cp * batch.dp).astype(float)
    seconds = p2p_s(sent, stride, hardware)
    gather = ~batch.sequence_parallel & workload.stack.scatter_gather_p2p & (batch.tp > 1)
    if gather.any():
        ones = np.ones(len(batch))
        seconds = seconds + np.where(gather, ring_s("all_gather", size, batch.tp.astype(float), ones, hardware), 0.0)
    return np.where(batch.pp > 1, seconds, 0.0)
