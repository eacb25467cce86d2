"""What happens once per step: gradient reduction, parameter gathering, the optimizer. Per rank, [N, P]."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.case import Case
from cost_models.communication import RingTerms, ring_s, ring_terms
from cost_models.inputs import SoftwareStack
from cost_models.records import record
from cost_models.step.group import PricedBatch, shards_each_use
from cost_models.step.memory import parameters_by_rank
from cost_models.step.stages import StageCosts
from cost_models.strategies import DISPATCHER_CODE, F64, SCHEDULE_CODE, Bool, StrategyBatch

BUCKET_BYTES = 160e6  # Megatron's default bucket: 40M parameters of 4 bytes (max(40M, 1M x dp) elements)
UNFUSED_ADAM_BYTES = 96.0  # per parameter
HOST_ADAM_BYTES = 30.0  # per parameter


@record(eq=False)
class RankLoad:
    """What a rank holds and does, [N, P] each: parameters of a card, seconds of one micro-batch in all its chunks.

    ``busy_link``: of these seconds, those in which expert communication and P2P fill the links between nodes.
    """

    dense_parameters: F64
    expert_parameters: F64
    forward_s: F64
    backward_s: F64
    busy_link_forward_s: F64
    busy_link_backward_s: F64


def rank_load(costs: StageCosts, group: PricedBatch) -> RankLoad:
    parameters = group.once(parameters_by_rank)
    dense, expert = parameters[:, 0], parameters[:, 1]
    share = group.once(link_share)
    return RankLoad(
        dense_parameters=dense,
        expert_parameters=expert,
        forward_s=group.work_by_rank(costs.forward_s),
        backward_s=group.work_by_rank(costs.backward_s),
        busy_link_forward_s=group.work_by_rank(share * costs.forward_ep_s + costs.p2p_s[:, None]),
        busy_link_backward_s=group.work_by_rank(share * costs.backward_ep_s + costs.p2p_s[:, None]),
    )


def link_share(group: PricedBatch) -> F64:
    """Share of the seconds of expert communication in which the links between nodes are the ones in use, [N, 1].

    A flat all-to-all lasts as long as its slower tier, which it fills; a hierarchical one is in one step or the other.
    """
    prices = group.table.prices
    lanes = (prices.dispatch_inter_s, prices.dispatch_intra_s)
    inter, intra = (group.geometry.over_all_stages(group.priced(lane)) for lane in lanes)
    flat = (inter >= intra).astype(float)
    steps = np.divide(inter, inter + intra, out=np.zeros_like(inter), where=inter + intra > 0)
    hierarchical = group.batch.dispatcher >= DISPATCHER_CODE["hierarchical-allgather"]
    return np.where(inter > 0, np.where(hierarchical, steps, flat), 0.0)[:, None]


@record(eq=False)
class StepEnd:
    """Seconds per rank [N, P]: communication as a whole, and what of it is exposed; optimizer; tied embeddings [N]."""

    grad_reduce_s: F64
    param_gather_s: F64
    exposed_s: F64
    overlapped_s: F64
    optimizer_s: F64
    embedding_reduce_s: F64  # [N]


def step_end(load: RankLoad, group: PricedBatch) -> StepEnd:
    """Gradient reduction, parameter gathering and the optimizer of every rank."""
    stack, dense, expert = group.case.workload.stack, load.dense_parameters, load.expert_parameters
    wires = _wires(group, dense, expert) if group.bases is None else group.once(_wires_of_bases)
    reduce_s, gather_s, hides = wires[:, 0], wires[:, 1], wires[:, 2:]
    # The reduction uses the links that expert communication and P2P leave free.
    free_back = np.maximum(load.backward_s - load.busy_link_backward_s, 0.0)
    free_forward = np.maximum(load.forward_s - load.busy_link_forward_s, 0.0)
    hidden = group.once(_hides_reduction)[:, None]
    exposed_reduce = np.where(hidden, exposed_s(reduce_s, free_back, hides), reduce_s)
    exposed_gather = exposed_s(gather_s, free_forward, hides) if stack.overlap_param_gather else gather_s
    exposed = exposed_reduce + exposed_gather
    return StepEnd(
        grad_reduce_s=reduce_s,
        param_gather_s=gather_s,
        exposed_s=exposed,
        overlapped_s=reduce_s + gather_s - exposed,
        optimizer_s=_optimizer_of_ranks_s(dense, expert, group),
        embedding_reduce_s=group.once(_tied_embedding_s),
    )


def _wires_of_bases(own: PricedBatch) -> F64:
    return _wires(own, *own.worked_out(parameters_by_rank).transpose(1, 0, 2))


def _hides_reduction(own: PricedBatch) -> Bool:
    return overlaps_grad_reduce(own.batch, own.case.workload.stack)


def _optimizer_of_ranks_s(dense: F64, expert: F64, group: PricedBatch) -> F64:
    """``optimizer_s`` of every rank, [N, P]: between nothing and all of it on the host in a straight line."""
    ends = _optimizer_ends_s(group, dense, expert) if group.bases is None else group.once(_optimizer_ends_of_bases_s)
    on_card, on_host = ends[:, 0], ends[:, 1]
    some = np.flatnonzero(group.batch.offload_frac)
    if len(some):
        on_card, share = on_card.copy(), group.batch.offload_frac[some, None]
        on_card[some] = (1.0 - share) * on_card[some] + share * on_host[some]
    return on_card


def _optimizer_ends_s(own: PricedBatch, dense: F64, expert: F64) -> F64:
    """With nothing and with all of the state on the host, [N, 2, P]."""
    ends = (replace(own.batch, offload_frac=np.full(len(own.batch), share)) for share in (0.0, 1.0))
    return np.stack([optimizer_s(dense, expert, end, own.case) for end in ends], axis=1)


def _optimizer_ends_of_bases_s(own: PricedBatch) -> F64:
    return _optimizer_ends_s(own, *own.worked_out(parameters_by_rank).transpose(1, 0, 2))


def exposed_s(wire_s: F64, computing_s: F64, hiding: F64) -> F64:
    """Of ``wire_s`` [N, P], what outlasts the computing of one micro-batch through all chunks that it runs under, [N, P].

    Buckets are reduced as their layers' last backward ends (gathered as their first forward begins): the last bucket is
    exposed. Interleaved, a rank works on ``p`` micro-batches of a chunk before the next, so that all chunks but the last one
    have those to hide under, and the last one, of ``1 / v`` of the bytes, its own pass through one micro-batch.
    ``hiding``: see the function, [N, 4, P].
    """
    own, ahead, last_chunk, last_bucket = (hiding[:, i] for i in range(4))
    under_own = own * computing_s
    last = np.maximum(last_chunk * wire_s - under_own, last_bucket * wire_s)
    return np.asarray(np.maximum(wire_s - ahead * computing_s - under_own, last))


def hiding(buckets: F64, group: PricedBatch) -> F64:
    """For ``buckets`` [N, P]: the part of a micro-batch's computing that the last chunk hides under, passes through it that
    the chunks before hide under, and the last chunk and the last bucket as parts of the wire, [N, 4, P]."""
    looped = group.batch.schedule == SCHEDULE_CODE["interleaved"]
    chunks = np.where(looped, group.batch.vpp, 1).astype(float)[:, None]
    passes = np.minimum(group.micro_batch_group, group.micro_batches)[:, None]
    own = (1.0 - 1.0 / np.maximum(buckets / chunks, 1.0)) / chunks
    parts = (own, passes * (chunks - 1.0) / chunks, 1.0 / chunks, 1.0 / np.maximum(buckets, chunks))
    return np.stack([np.broadcast_to(part, buckets.shape) for part in parts], axis=1)


def beside_the_pipeline_s(end: StepEnd, load: RankLoad, group: PricedBatch) -> F64:
    """Once per step and on every rank alike: tied embeddings, computing slowed by overlapped reduction, overheads. [N]."""
    return slowed_by_reduction_s(end, load, group) + end.embedding_reduce_s + overhead_s(group)


def slowed_by_reduction_s(end: StepEnd, load: RankLoad, group: PricedBatch) -> F64:
    """Computing of the busiest rank that runs beside gradient reduction and parameter gathering is slowed, [N]."""
    busiest = np.argmax(load.forward_s + load.backward_s, axis=1)
    beside = end.overlapped_s[np.arange(len(busiest)), busiest]
    return group.case.hardware.overheads.overlap_slowdown_frac * beside


def overhead_s(group: PricedBatch) -> F64:
    overheads = group.case.hardware.overheads
    # Times composed of profiles of layers know no host time of a step.
    step_s = 0.0 if group.case.workload.stack.short_bursts else overheads.step_s
    return np.asarray(step_s + overheads.micro_batch_s * group.micro_batches.astype(float))


def straggler_frac(group: PricedBatch) -> F64:
    """How much longer the slowest of so many nodes takes, [N]."""
    hardware = group.case.hardware
    doublings = np.log2(np.maximum(group.batch.devices / hardware.cards_per_node, 1.0))
    return np.asarray(hardware.overheads.straggler_frac_per_doubling * doublings)


def overlaps_grad_reduce(batch: StrategyBatch, stack: SoftwareStack) -> Bool:
    """Strategies whose gradient reduction runs under the backward, [N]."""
    excluded = batch.ep_overlap | (batch.schedule == SCHEDULE_CODE["dualpipev"])
    return ~(excluded & stack.serial_grad_reduce_under_ep_overlap) & stack.overlap_grad_reduce


def _wires(group: PricedBatch, dense: F64, expert: F64) -> F64:
    """Seconds of gradient reduction and of parameter gathering, and how they hide, [N, 6, P].

    Reduce-scatter and all-gather under a distributed optimizer, all-reduce without one; experts over expert DP. What is
    gathered and scattered for each use is priced with the stages."""
    batch, hardware, workload = group.batch, group.case.hardware, group.case.workload
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
        scattered = sharded & (not workload.stack.whole_gradients_reduced)
        either = RingTerms(*(np.where(scattered, s, r) for s, r in zip(terms(scatter), terms(reduce), strict=True)))
        reduce_s += either.column().seconds(count * workload.grad_reduce_bytes)
        gather = ring_terms("all_gather", size, stride, hardware)
        on = RingTerms(gather.latency_s, np.where(sharded, gather.seconds_per_byte, 0.0), gather.ramp)
        gather_s += on.column().seconds(count * (workload.gather_bytes or workload.weight_bytes))
    apart = group.shards_each_use[:, None]
    buckets = np.maximum((dense + expert) * workload.grad_reduce_bytes / BUCKET_BYTES, 1.0)
    wires = np.stack([np.where(apart, 0.0, reduce_s), np.where(apart, 0.0, gather_s)], axis=1)
    return np.concatenate([wires, hiding(buckets, group)], axis=1)


def terms(ring: RingTerms) -> tuple[F64, F64, F64]:
    return ring.latency_s, ring.seconds_per_byte, ring.ramp


def optimizer_s(dense: F64, expert: F64, batch: StrategyBatch, case: Case) -> F64:
    """Adam reads and writes its state, reads the gradient twice (norm, update), writes the weight; the gradient buffer is
    zeroed whole, unless gradients are sharded too (they are freed). Memory-bound. Unfused in torch, Adam is a chain of
    passes over fp32 tensors: decay 8 B, first moment 12, second 24, root and bias corrections 24, update 16, norm and
    clipping 12. An offloaded share: see ``_offloaded_s``."""
    hardware, workload = case.hardware, case.workload
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
    return (1.0 - offload) * local * touched / bandwidth + zeroing + offload * local * _offloaded_s(case)


def _offloaded_s(case: Case) -> float:
    """Seconds per parameter whose optimizer state lives on the host.

    Stepped on the host: the gradient comes, Adam reads weight, gradient and moments (16 B) and writes weight, moments (12 B)
    and the 16-bit weight (2 B) in the host's memory, which goes back. Stepped on the card: the state comes and goes, both
    directions at once.
    """
    hardware, workload = case.hardware, case.workload
    if not workload.stack.host_adam:
        return workload.optimizer_bytes / hardware.host_swap_bytes_per_s
    copies = (workload.grad_bytes + workload.weight_bytes) / hardware.host_copy_bytes_per_s
    return copies + HOST_ADAM_BYTES / hardware.host_adam_rate_bytes_per_s


def _tied_embedding_s(own: PricedBatch) -> F64:
    """Tied input and output embeddings on two ranks sum their gradients once per step."""
    batch, case, model = own.batch, own.case, own.case.model
    if not model.tied_embeddings:
        return np.zeros(len(batch))
    size = model.vocab / batch.tp * model.hidden * case.workload.grad_reduce_bytes
    stride = (batch.tp * batch.cp * batch.dp * np.maximum(batch.pp - 1, 1)).astype(float)
    pair = np.full(len(batch), 2.0)
    return np.where(batch.pp > 1, ring_s("all_reduce", size, pair, stride, case.hardware), 0.0)
