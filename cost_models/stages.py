"""From price list to virtual stages: seconds and bytes of each stage for the strategies of one layout.

Axes: N strategies, S virtual stages, P ranks, C columns of the price list, F families.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.communication import p2p_s, ring_s
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.layer_price import EP, LayerPrices
from cost_models.strategies import F64, I64, RECOMPUTE_BIT, Layout, StrategyBatch

FULL = RECOMPUTE_BIT["full"]


@dataclass(slots=True)
class StageCosts:
    """Seconds per micro-batch and saved bytes of each virtual stage, [N, S]; p2p of one boundary, [N]."""

    forward_s: F64
    backward_input_s: F64  # recompute included
    backward_weight_s: F64
    forward_ep_s: F64  # the expert-communication part of forward_s
    backward_ep_s: F64
    saved_bytes: F64
    swapped_bytes: F64  # of saved_bytes, what the strategy keeps on the host
    p2p_s: F64
    full_share: F64  # [N, S] share of a stage's layers under full recompute (blend of two masks)
    point: I64  # [N] row of the price list
    mask: I64  # [N] column of the mask table
    plain_mask: I64  # [N] the mask without "full"


def stage_costs(
    prices: LayerPrices, point: I64, mask: I64, plain_mask: I64, batch: StrategyBatch, layout: Layout, model: ModelSpec,
    hardware: HardwareProfile, workload: Workload,
) -> StageCosts:  # fmt: skip
    """Contracts the price list with the layer counts of the layout."""
    counts = layout.counts.T  # [C, S]
    share = full_share(batch, layout)
    forward = prices.forward_s.sum(axis=2)[point] @ counts
    again_all = prices.recompute_s.sum(axis=3)
    again = _blend(again_all, point, mask, plain_mask, share, counts)
    forward_ep = prices.forward_s[:, :, EP][point] @ counts
    backward_ep = prices.backward_input_s[:, :, EP][point] @ counts
    backward_ep = backward_ep + _blend(prices.recompute_s[:, :, :, EP], point, mask, plain_mask, share, counts)
    return StageCosts(
        forward_s=forward,
        backward_input_s=prices.backward_input_s.sum(axis=2)[point] @ counts + again,
        backward_weight_s=prices.backward_weight_s.sum(axis=2)[point] @ counts,
        forward_ep_s=forward_ep,
        backward_ep_s=backward_ep,
        saved_bytes=_blend(prices.saved_bytes, point, mask, plain_mask, share, counts),
        swapped_bytes=_swapped(prices, point, mask, plain_mask, share, counts, batch),
        p2p_s=boundary_s(batch, model, hardware, workload),
        full_share=share,
        point=point,
        mask=mask,
        plain_mask=plain_mask,
    )


def _swapped(
    prices: LayerPrices, point: I64, mask: I64, plain: I64, share: F64, counts: F64, batch: StrategyBatch
) -> F64:
    if not batch.swap_frac.any():
        return np.zeros((len(batch), counts.shape[1]))
    return batch.swap_frac[:, None] * _blend(prices.swappable_bytes, point, mask, plain, share, counts)


def full_share(batch: StrategyBatch, layout: Layout) -> F64:
    """Share of each stage's layers that "full" covers: all of them, or the first ``recompute_layers``. [N, S]."""
    layers = np.maximum(layout.layers_per_stage, 1.0)[None, :]
    limit = batch.recompute_layers[:, None].astype(float)
    covered = np.where(limit > 0, np.minimum(limit / layers, 1.0), 1.0)
    return np.where((batch.recompute & FULL)[:, None] > 0, covered, 1.0)


def _blend(table: F64, point: I64, mask: I64, plain: I64, share: F64, counts: F64) -> F64:
    """[U, M, C] -> [N, S]: the masked value on the covered share of layers, the plain one on the rest."""
    covered = table[point, mask] @ counts
    if (share == 1.0).all():
        return covered
    return share * covered + (1.0 - share) * (table[point, plain] @ counts)


def boundary_s(batch: StrategyBatch, model: ModelSpec, hardware: HardwareProfile, workload: Workload) -> F64:
    """Seconds to hand one micro-batch's activations to the next stage, [N]."""
    tokens = batch.micro_batch * workload.seq_length / batch.cp
    size = 2.0 * tokens * model.hidden
    split = batch.sequence_parallel | workload.stack.scatter_gather_p2p
    sent = np.where(split, size / batch.tp, size)
    stride = (batch.tp * batch.cp * batch.dp).astype(float)
    seconds = p2p_s(sent, stride, hardware)
    gather = ~batch.sequence_parallel & workload.stack.scatter_gather_p2p & (batch.tp > 1)
    if gather.any():
        ones = np.ones(len(batch))
        seconds = seconds + np.where(gather, ring_s("all_gather", size, batch.tp.astype(float), ones, hardware), 0.0)
    return np.where(batch.pp > 1, seconds, 0.0)
