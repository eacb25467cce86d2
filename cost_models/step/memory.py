"""Bytes per pipeline rank by cause, allocated and reserved.

Axes: N strategies of one layout, S virtual stages, P pipeline ranks, C columns of the price list.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.inputs import HardwareProfile, Workload
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.step.group import PricedGroup, keeps_whole, rank_of_stage
from cost_models.strategies import F64, I64, Layout, StrategyBatch

BF16 = 2.0  # bytes
CAUSES = (
    "weights", "gradients", "optimizer", "activations", "logits", "transient", "communication_buffers", "reserved_overhead",
)  # fmt: skip
WEIGHT_COPIES = np.array([float(schedule.weight_copies) for schedule in SCHEDULE_TABLE.values()])


def parameters_by_rank(group: PricedGroup) -> tuple[F64, F64]:
    """Dense and expert parameters that a card of each rank holds, [N, P] each.

    A stage with MTP but without the head holds its own copy of embedding and head; tied models hold the embedding again
    on the head's rank when the two are on different ranks.
    """
    model, prices, counts = group.case.model, group.table.prices, group.layout.counts
    dense = group.priced(prices.dense_parameters)  # [N, C]
    embedding, mtp, head = -3, -2, -1
    stage_dense = dense @ counts.T
    if model.mtp_modules:
        lonely = (counts[:, mtp] > 0) & (counts[:, head] == 0)
        stage_dense += np.outer(dense[:, head], lonely)
        away = (counts[:, mtp] > 0) & (counts[:, embedding] == 0)
        stage_dense += np.outer(dense[:, embedding], away)
    rank_dense = group.by_rank(stage_dense)
    if model.tied_embeddings:
        ranks = rank_of_stage(group.layout, group.schedule.v_shaped)
        same = ranks[np.argmax(counts[:, embedding])] == ranks[np.argmax(counts[:, head])]
        if same:
            rank_dense[:, ranks[np.argmax(counts[:, head])]] -= dense[:, head] - model.hidden
    return rank_dense, group.by_rank(group.priced(prices.expert_parameters) @ counts.T)


def static_bytes(dense: F64, expert: F64, batch: StrategyBatch, workload: Workload) -> dict[str, F64]:
    """Weights, gradients and optimizer state of [N, P] parameter counts under the batch's ZeRO stage."""
    shards = (batch.dp * batch.cp).astype(float)[:, None]
    expert_shards = batch.expert_dp.astype(float)[:, None]
    zero = batch.zero_stage[:, None]
    copies = WEIGHT_COPIES[batch.schedule][:, None]
    # Fed from both ends, a rank holds its own stage and its mirror's.
    dense, expert = (np.where(copies > 1, (held + held[:, ::-1]) / 2, held) for held in (dense, expert))
    whole = keeps_whole(batch, workload)[:, None]
    cached = np.where(batch.micro_batches(workload.global_batch) > 1, workload.cached_weight_bytes, 0.0)[:, None]

    kept = BF16 if workload.stack.narrow_gradients_kept and workload.grad_bytes > BF16 else 0.0

    def held(stage: int, size: F64 | float) -> F64:
        sharded = (zero >= stage) & ~(whole & (stage > 1))
        return size * (dense / np.where(sharded, shards, 1.0) + expert / np.where(sharded, expert_shards, 1.0))

    on_card = (1.0 - batch.offload_frac)[:, None]
    return {
        "weights": held(3, workload.weight_bytes + cached) * copies,
        "gradients": held(2, workload.grad_bytes + kept) * copies,
        "optimizer": held(1, workload.optimizer_bytes + np.where(zero >= 1, workload.master_grad_bytes, 0.0)) * on_card,
    }


def both_ends_bytes(saved_stage: F64) -> F64:
    """Saved bytes of a micro-batch in flight on a rank that holds stage r and its mirror's, [N, P]: of p + 1 in flight p - r
    are at stage r, and r + 1 came from the other end."""
    p = saved_stage.shape[1]
    mirror = (np.arange(p) + 1.0) / (p + 1.0)
    return saved_stage * (1.0 - mirror) + saved_stage[:, ::-1] * mirror


def in_flight_by_chunk(total: F64, group: I64, vpp: int) -> F64:
    """Spreads each rank's in-flight chunk count [N, P] over its chunks, in the interleaved order: groups of ``group``
    micro-batches of chunk 0, then of chunk 1, and round again. Returns [N, v, P]."""
    g = group.astype(float)[:, None, None]
    chunk = np.arange(vpp, dtype=float)[None, :, None]
    count = total[:, None, :]
    first_round = np.clip(count - chunk * g, 0.0, g)
    rest = np.maximum(count - vpp * g, 0.0)
    return first_round + np.clip(rest - chunk * g, 0.0, None) * (chunk == 0) if vpp > 1 else count


def activation_bytes(saved_stage: F64, in_flight: F64, layout: Layout, v_shaped: bool) -> F64:
    """[N, S] saved bytes per chunk and micro-batch x [N, v, P] in flight -> [N, P]."""
    n = len(saved_stage)
    per_chunk = saved_stage.reshape(n, layout.vpp, layout.pp)
    if v_shaped:
        per_chunk = per_chunk.copy()
        per_chunk[:, 1::2, :] = per_chunk[:, 1::2, ::-1]
    return (per_chunk * in_flight).sum(axis=1)


def communication_groups(batch: StrategyBatch) -> F64:
    """Communicators that a card takes part in."""
    axes = (batch.tp, batch.cp, batch.dp * batch.cp, batch.pp, batch.ep, batch.etp, batch.expert_dp)
    return sum((axis > 1).astype(float) for axis in axes)  # type: ignore[return-value]


def overhead_bytes(allocated: F64, batch: StrategyBatch, hardware: HardwareProfile) -> dict[str, F64]:
    """What the allocator and the driver reserve on top of the tensors."""
    overheads = hardware.overheads
    buffers = np.broadcast_to(
        (communication_groups(batch) * overheads.communication_buffer_bytes)[:, None], allocated.shape
    )
    reserve = overheads.context_bytes + overheads.fragmentation_frac * allocated
    return {"communication_buffers": buffers, "reserved_overhead": reserve}


def late_optimizer_bytes(dense: F64, expert: F64, batch: StrategyBatch, workload: Workload) -> F64:
    """Of the optimizer state, what appears at the first optimizer step only, where the peak was read after one step:
    Adam's moments, 8 of 12 B (half of 8 B of 16-bit or single moments). [N, P]."""
    if not workload.peak_of_first_step:
        return np.zeros_like(dense)
    moments = 8.0 if workload.optimizer_bytes >= 10.0 else workload.optimizer_bytes / 2
    return static_bytes(dense, expert, batch, replace(workload, optimizer_bytes=moments, master_grad_bytes=0.0))[
        "optimizer"
    ]


def in_flight_v(total: F64, vpp: int) -> F64:
    """V-shaped schedules keep about as many micro-batches of each half: [N, P] -> [N, v, P]."""
    return np.repeat(total[:, None, :] / vpp, vpp, axis=1)
