"""Bytes per pipeline rank by cause, allocated and reserved.

Axes: N strategies of one layout, S virtual stages, P pipeline ranks, C columns of the price list.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.inputs import HardwareProfile, Workload
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.step.group import PricedBatch, keeps_whole
from cost_models.strategies import F64, StrategyBatch

BF16 = 2.0  # bytes
CAUSES = (
    "weights", "gradients", "optimizer", "activations", "logits", "transient", "communication_buffers", "reserved_overhead",
)  # fmt: skip
WEIGHT_COPIES = np.array([float(schedule.weight_copies) for schedule in SCHEDULE_TABLE.values()])


def parameters_by_rank(group: PricedBatch) -> F64:
    """Dense and expert parameters that a card of each rank holds, [N, 2, P].

    A stage with MTP but without the head holds its own copy of embedding and head; tied models hold the embedding again
    on the head's rank when the two are on different ranks.
    """
    model, prices, geometry = group.case.model, group.table.prices, group.geometry
    dense = group.priced(prices.dense_parameters)  # [N, C]
    embedding, mtp, head = -3, -2, -1
    stage_dense = group.on_stages(dense)
    if model.mtp_modules:
        held = geometry.each_row(geometry.counts > 0)  # [N, C, S]
        lonely, away = (held[:, mtp] & ~held[:, own] for own in (head, embedding))
        stage_dense = stage_dense + dense[:, head, None] * lonely + dense[:, embedding, None] * away
    rank_dense = group.by_rank(stage_dense)
    if model.tied_embeddings:
        same = geometry.each_row(geometry.present[:, :, embedding] & geometry.present[:, :, head])
        rank_dense = rank_dense - np.where(same, dense[:, head, None] - model.hidden, 0.0)
    expert = group.by_rank(group.on_stages(group.priced(prices.expert_parameters)))
    return np.stack([rank_dense, expert], axis=1)


def static_bytes(dense: F64, expert: F64, batch: StrategyBatch, workload: Workload) -> dict[str, F64]:
    """Weights, gradients and optimizer state of [N, P] parameter counts under the batch's ZeRO stage. Fed from both ends, a
    rank holds two copies: of its own stage and of its mirror's, of which ``dense`` and ``expert`` are the mean."""
    shards = (batch.dp * batch.cp).astype(float)[:, None]
    expert_shards = batch.expert_dp.astype(float)[:, None]
    zero = batch.zero_stage[:, None]
    copies = WEIGHT_COPIES[batch.schedule][:, None]
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
