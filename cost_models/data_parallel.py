"""What happens once per step: gradient reduction, parameter gathering, the optimizer. Per rank, [N, P]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.communication import RingTerms, ring_s, ring_terms
from cost_models.fully_sharded import shards_each_use
from cost_models.inputs import HardwareProfile, ModelSpec, SoftwareStack, Workload
from cost_models.strategies import F64, SCHEDULE_CODE, Bool, StrategyBatch

BUCKET_BYTES = 160e6  # Megatron's default bucket: 40M parameters of 4 bytes (max(40M, 1M x dp) elements)
UNFUSED_ADAM_BYTES = 96.0  # per parameter


@dataclass(slots=True)
class StepEnd:
    """Seconds per rank [N, P]: communication as a whole, and what of it is exposed; optimizer; gradient norm."""

    grad_reduce_s: F64
    param_gather_s: F64
    exposed_s: F64
    overlapped_s: F64
    optimizer_s: F64
    embedding_reduce_s: F64  # [N]


def step_end(
    dense: F64, expert: F64, rank_forward_s: F64, rank_backward_s: F64, batch: StrategyBatch, model: ModelSpec,
    hardware: HardwareProfile, workload: Workload,
) -> StepEnd:  # fmt: skip
    """``dense``/``expert`` parameters per card [N, P]; rank_*_s the computing of one micro-batch through all its chunks."""
    stack = workload.stack
    reduce_s, gather_s = _reduce_and_gather(dense, expert, batch, hardware, workload)
    sharded = shards_each_use(batch, workload)[:, None]  # priced with the stages
    reduce_s, gather_s = np.where(sharded, 0.0, reduce_s), np.where(sharded, 0.0, gather_s)
    buckets = np.maximum((dense + expert) * workload.grad_reduce_bytes / BUCKET_BYTES, 1.0)
    room_back, room_forward = rank_backward_s * (1.0 - 1.0 / buckets), rank_forward_s * (1.0 - 1.0 / buckets)
    hidden = overlaps_grad_reduce(batch, stack)[:, None]
    exposed_reduce = np.where(hidden, np.maximum(reduce_s - room_back, reduce_s / buckets), reduce_s)
    exposed_gather = np.maximum(gather_s - room_forward, gather_s / buckets) if stack.overlap_param_gather else gather_s
    exposed = exposed_reduce + exposed_gather
    return StepEnd(
        grad_reduce_s=reduce_s,
        param_gather_s=gather_s,
        exposed_s=exposed,
        overlapped_s=reduce_s + gather_s - exposed,
        optimizer_s=optimizer_s(dense, expert, batch, hardware, workload),
        embedding_reduce_s=_tied_embedding_s(batch, model, hardware, workload),
    )


def overlaps_grad_reduce(batch: StrategyBatch, stack: SoftwareStack) -> Bool:
    """Strategies whose gradient reduction runs under the backward, [N]."""
    excluded = batch.ep_overlap | (batch.schedule == SCHEDULE_CODE["dualpipev"])
    return ~(excluded & stack.serial_grad_reduce_under_ep_overlap) & stack.overlap_grad_reduce


def _reduce_and_gather(
    dense: F64, expert: F64, batch: StrategyBatch, hardware: HardwareProfile, workload: Workload
) -> tuple[F64, F64]:
    """Reduce-scatter and all-gather under a distributed optimizer, all-reduce without one; experts over expert DP."""
    groups = (
        (dense, (batch.dp * batch.cp).astype(float), batch.tp.astype(float)),
        (expert, batch.expert_dp.astype(float), (batch.etp * batch.ep).astype(float)),
    )
    sharded = batch.zero_stage >= 1
    reduce_s, gather_s = np.zeros_like(dense), np.zeros_like(dense)
    for count, size, stride in groups:
        if not count.any():
            continue
        scatter, reduce = (ring_terms(op, size, stride, hardware) for op in ("reduce_scatter", "all_reduce"))
        either = RingTerms(*(np.where(sharded, s, r) for s, r in zip(terms(scatter), terms(reduce), strict=True)))
        reduce_s += either.column().seconds(count * workload.grad_reduce_bytes)
        gather = ring_terms("all_gather", size, stride, hardware)
        on = RingTerms(gather.latency_s, np.where(sharded, gather.seconds_per_byte, 0.0), gather.ramp)
        gather_s += on.column().seconds(count * workload.weight_bytes)
    return reduce_s, gather_s


def terms(ring: RingTerms) -> tuple[F64, F64, F64]:
    return ring.latency_s, ring.seconds_per_byte, ring.ramp


def optimizer_s(dense: F64, expert: F64, batch: StrategyBatch, hardware: HardwareProfile, workload: Workload) -> F64:
    """Adam reads and writes its state, reads the gradient twice (norm, update), writes the weight; the gradient buffer is
    zeroed whole, unless gradients are sharded too (they are freed). Memory-bound; an offloaded share travels over the host
    link instead. Unfused in torch, Adam is a chain of passes over fp32 tensors: decay 8 B, first moment 12, second 24, root
    and bias corrections 24, update 16, norm and clipping 12."""
    shards = np.where(batch.zero_stage >= 1, batch.dp * batch.cp, 1).astype(float)[:, None]
    expert_shards = np.where(batch.zero_stage >= 1, batch.expert_dp, 1).astype(float)[:, None]
    local = dense / shards + expert / expert_shards
    touched = 2 * workload.optimizer_bytes + 2 * workload.grad_bytes + workload.weight_bytes
    if not workload.stack.fused_optimizer:
        touched = max(touched, UNFUSED_ADAM_BYTES)
    bandwidth = hardware.device.hbm_bandwidth_bytes_per_s * hardware.overheads.optimizer_bandwidth_frac
    buffers = np.where(shards_each_use(batch, workload)[:, None], local, dense + expert)
    zeroing = buffers * workload.grad_bytes / bandwidth
    offload = batch.offload_frac[:, None]
    host = offload * local * (workload.grad_bytes + workload.weight_bytes) / hardware.overheads.host_link_bytes_per_s
    return (1.0 - offload) * local * touched / bandwidth + zeroing + host


def _tied_embedding_s(batch: StrategyBatch, model: ModelSpec, hardware: HardwareProfile, workload: Workload) -> F64:
    """Tied input and output embeddings on two ranks sum their gradients once per step."""
    if not model.tied_embeddings:
        return np.zeros(len(batch))
    size = model.vocab / batch.tp * model.hidden * workload.grad_reduce_bytes
    stride = (batch.tp * batch.cp * batch.dp * np.maximum(batch.pp - 1, 1)).astype(float)
    pair = np.full(len(batch), 2.0)
    return np.where(batch.pp > 1, ring_s("all_reduce", size, pair, stride, hardware), 0.0)
