"""From price list to virtual stages: seconds and bytes of each stage for the strategies of one layout.

Axes: N strategies, S virtual stages, P ranks, C columns of the price list, F families.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from cost_models.communication import p2p_s, ring_s
from cost_models.layer_price import EP
from cost_models.records import record
from cost_models.step.group import FULL, PricedBatch
from cost_models.strategies import F64, I64, StrategyBatch


@record(eq=False)
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


@record(eq=False)
class Taken:
    """What an effect adds to each stage under a cause of the step's time (negative: takes out)."""

    cause: str
    before: StageCosts
    after: StageCosts

    @property
    def seconds(self) -> F64:
        """Both directions, [N, S]."""
        before, after = self.before, self.after
        backward = (after.backward_input_s - before.backward_input_s) + (
            after.backward_weight_s - before.backward_weight_s
        )
        return np.asarray(after.forward_s - before.forward_s + backward)


def stage_costs(group: PricedBatch) -> StageCosts:
    """Contracts the price list with the layer counts of the layouts."""
    forward_s, input_s, weight_s, forward_ep_s, input_ep_s = group.once(_without_relief).transpose(1, 0, 2)
    share = full_share(group)
    again, again_ep, saved = group.once_a_mask(_under_recompute).transpose(1, 0, 2)
    return StageCosts(
        forward_s=forward_s,
        backward_input_s=input_s + again,
        backward_weight_s=weight_s,
        forward_ep_s=forward_ep_s,
        backward_ep_s=input_ep_s + again_ep,
        recompute_s=again,
        recompute_ep_s=again_ep,
        saved_bytes=saved,
        swapped_bytes=_swapped(group, share),
        p2p_s=group.once(boundary_s),
        full_share=share,
    )


def _under_recompute(group: PricedBatch) -> F64:
    """Seconds that run again, of them expert communication, and saved bytes of each stage, [N, 3, S]."""
    prices, share = group.table.prices, full_share(group)
    tables = (prices.totals_s[3], prices.recompute_s[:, :, :, EP], prices.saved_bytes)
    return np.stack([_blend(table, group, share) for table in tables], axis=1)


def _without_relief(own: PricedBatch) -> F64:
    """Forward, input and weight backward of each stage; of forward and input the expert communication, [N, 5, S]."""
    prices = own.table.prices
    ep = (prices.forward_s[:, :, EP], prices.backward_input_s[:, :, EP])
    return np.stack([own.on_stages(own.priced(each)) for each in (*prices.totals_s[:3], *ep)], axis=1)


def _swapped(group: PricedBatch, share: F64) -> F64:
    swap = group.batch.swap_frac
    if not swap.any():
        return np.zeros_like(share)
    return swap[:, None] * _blend(group.table.prices.swappable_bytes, group, share)


def full_share(group: PricedBatch) -> F64:
    """Share of each stage's layers that "full" covers: all of them, or the first ``recompute_layers``. [N, S]."""
    share = np.ones((len(group.batch), group.geometry.counts.shape[2]))
    some = _partly_full(group.batch)
    if len(some):
        layers = np.maximum(group.geometry.take(some).layers, 1.0)
        share[some] = np.minimum(group.batch.recompute_layers[some, None] / layers, 1.0)
    return share


def _partly_full(batch: StrategyBatch) -> I64:
    """Rows of strategies that put some layers of a stage under full recompute."""
    return np.flatnonzero((batch.recompute & FULL) * batch.recompute_layers)


def _blend(by_mask: F64, group: PricedBatch, share: F64) -> F64:
    """[U, M, C] -> [N, S]: the masked value on the covered share of layers, the plain one on the rest."""
    covered = group.on_stages(group.table.masked(by_mask, group.table.mask))
    some = _partly_full(group.batch)
    if len(some):
        table, geometry = group.table.take(some), group.geometry.take(some)
        plain = geometry.contract(table.masked(by_mask, table.plain), geometry.counts)
        covered[some] = share[some] * covered[some] + (1.0 - share[some]) * plain
    return covered


def boundary_s(group: PricedBatch) -> F64:
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
