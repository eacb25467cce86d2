"""ZeRO-3 / FSDP: parameters are gathered before each use, gradients scattered after each micro-batch.

Axes: N strategies, S virtual stages. Gathers and scatters run under the computing of the neighbouring layer, which they
slow down: they take multiprocessors, memory bandwidth and power. A stage costs the larger of the two; its first gather and
last scatter are exposed. PyTorch's ``SHARD_GRAD_OP`` (ZeRO-2 under FSDP) keeps the gathered parameters for the backward
pass: one gather less. Every gather is copied out of, every scatter copied into a flat buffer on the way.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.communication import members, ring_s
from cost_models.inputs import HardwareProfile
from cost_models.records import record
from cost_models.step.group import FULL, PricedBatch
from cost_models.step.stages import StageCosts, Taken
from cost_models.strategies import F64

MATRICES_PER_LAYER = (
    4  # that DeepSpeed fetches one by one; vectors stay on every card (stage3_param_persistence_threshold)
)


@record(kw_only=False)
class _Wire:
    """Seconds of one gather and of one scatter of a stage's parameters, and of the copies beside them, [N, S]."""

    gather_s: F64
    scatter_s: F64
    copy_out_s: F64
    copy_in_s: F64


def gather_parameters(costs: StageCosts, group: PricedBatch) -> tuple[StageCosts, Taken]:
    """Adds parameter gathers and gradient scatters to the stages of the strategies that shard parameters."""
    batch, workload = group.batch, group.case.workload
    sharded = group.shards_each_use
    if not sharded.any():
        return costs, Taken(cause="dp_comm", before=costs, after=costs)
    wire = _Wire(*group.once(_wires_of_sharded).transpose(1, 0, 2))
    layers = np.maximum(group.geometry.layers, 1.0)
    again = (batch.zero_stage >= 3).astype(float)[:, None]  # gathers of the backward pass
    slow = group.case.hardware.overheads.overlap_slowdown_frac
    if workload.stack.coalesced_gathers:
        fetched, under = again * wire.gather_s, again * wire.gather_s + wire.scatter_s
        after = wire.scatter_s / layers
    else:  # the recomputed forward fetches once more; nothing runs under the reductions
        recomputed = np.where((batch.recompute & FULL)[:, None] > 0, costs.full_share, 0.0)
        fetched = under = (again + recomputed) * wire.gather_s
        after = wire.scatter_s
    forward = _beside(costs.forward_s, wire.gather_s, slow) + wire.gather_s / layers + wire.copy_out_s
    backward = _beside(costs.backward_s, under, slow) + after + again * wire.copy_out_s + wire.copy_in_s
    # The input gradient waits for what it fetches, the weight part for the rest: neither shrinks when computing grows.
    inputs = np.minimum(_beside(costs.backward_input_s, fetched, slow) + again * wire.copy_out_s, backward)
    on = sharded[:, None]
    gathered = replace(
        costs,
        forward_s=np.where(on, forward, costs.forward_s),
        backward_input_s=np.where(on, inputs, costs.backward_input_s),
        backward_weight_s=np.where(on, backward - inputs, costs.backward_weight_s),
    )
    return gathered, Taken(cause="dp_comm", before=costs, after=gathered)


def _beside(compute_s: F64, wire_s: F64, slowdown_frac: float) -> F64:
    """Computing with a collective beside it: slowed while both run, and never shorter than the collective."""
    return np.maximum(compute_s + slowdown_frac * np.minimum(wire_s, compute_s), wire_s)


def _wires_of_sharded(group: PricedBatch) -> F64:
    """``_wires``, nought where nothing is gathered for each use."""
    rows = np.flatnonzero(group.shards_each_use)
    out = np.zeros((len(group.batch), 4, group.geometry.counts.shape[2]))
    out[rows] = _wires(group.take(rows))
    return out


def _wires(group: PricedBatch) -> F64:
    """The fields of ``_Wire``, [N, 4, S]. Dense parameters are sharded over DP x CP, routed experts over their own
    data-parallel group."""
    batch, workload, hardware = group.batch, group.case.workload, group.case.hardware
    prices, layers = group.table.prices, np.maximum(group.geometry.layers, 1.0)
    pieces = layers if workload.stack.coalesced_gathers else MATRICES_PER_LAYER * layers
    gathered, reduced = workload.gather_bytes or workload.weight_bytes, workload.grad_reduce_bytes
    copies = hardware.device.hbm_bandwidth_bytes_per_s * hardware.device.memory_bound_frac
    zero = np.zeros((len(batch), layers.shape[1]))
    gather_s, scatter_s, total = zero, zero, zero
    for table, size, stride in (
        (prices.dense_parameters, batch.dp * batch.cp, batch.tp),
        (prices.expert_parameters, batch.expert_dp, batch.etp * batch.ep),
    ):
        parameters = group.on_stages(group.priced(table))
        if not parameters.any():
            continue
        ranks, apart = (np.broadcast_to(a.astype(float)[:, None], parameters.shape) for a in (size, stride))
        apart = apart if workload.stack.coalesced_gathers else _one_ring(ranks, apart, hardware)
        gather_s = gather_s + pieces * ring_s("all_gather", parameters * gathered / pieces, ranks, apart, hardware)
        scatter_s = scatter_s + pieces * ring_s("reduce_scatter", parameters * reduced / pieces, ranks, apart, hardware)
        total = total + np.where(ranks > 1, parameters, 0.0)
    copy_out = total * 2.0 * gathered / copies
    copy_in = total * (workload.weight_bytes + reduced) / copies
    return np.stack([gather_s, scatter_s, copy_out, copy_in], axis=1)


def _one_ring(ranks: F64, stride: F64, hardware: HardwareProfile) -> F64:
    """A stride at which a group that leaves the node has one NIC, not one for each of its cards of the node."""
    inside = members(ranks, stride, hardware.tiers[0])
    return np.where(ranks > inside, np.maximum(stride, hardware.tiers[0].cards), stride)
