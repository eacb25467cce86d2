"""One training step of every strategy in a batch: time by cause along the critical rank, memory by cause of the fullest.

Axes: N strategies, S virtual stages, P pipeline ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cost_models import memory as mem
from cost_models.data_parallel import StepEnd, step_end
from cost_models.dims import core_points
from cost_models.expert_overlap import hide_expert_communication
from cost_models.flops import model_flop_per_token
from cost_models.fully_sharded import gather_parameters
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.layer_price import FAMILIES, LayerPrices, price_layers
from cost_models.memory_peaks import at_the_peak, workspace
from cost_models.schedule_terms import held_chunks, pipeline_s
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.stages import FULL, StageCosts, stage_costs
from cost_models.strategies import F64, I64, SCHEDULES, Bool, Layout, StrategyBatch
from cost_models.swap import swap_activations

STEP_CAUSES = FAMILIES + ("recompute", "pp_comm", "dp_comm", "bubble", "optimizer", "overhead", "straggler")


@dataclass(slots=True)
class StepCost:
    """Arrays [N] unless said. ``time_s`` sums to ``step_s``; ``memory_bytes`` sums to ``peak_reserved_bytes``."""

    step_s: F64
    peak_reserved_bytes: F64
    peak_allocated_bytes: F64
    memory_rank: I64
    critical_rank: I64
    feasible: Bool
    bubble_s: F64
    model_flop: F64  # per step, whole job
    time_s: dict[str, F64]
    memory_bytes: dict[str, F64]
    rank_busy_s: F64 | None = None  # [N, P], only with per_rank
    rank_memory_bytes: dict[str, F64] | None = None  # cause -> [N, P]
    rank_time_s: dict[str, F64] | None = None


def evaluate(
    model: ModelSpec, hardware: HardwareProfile, workload: Workload, batch: StrategyBatch, *, per_rank: bool = False
) -> StepCost:
    """Prices a batch. One strategy is a batch of length 1. With ``per_rank`` the lists by rank are kept, padded to the
    largest pipeline of the batch."""
    masks, mask, plain = _mask_table(batch)
    core = core_points(batch, workload)
    prices = price_layers(model, hardware, workload, core, masks)
    result = _empty(batch, model, workload, per_rank)
    for rows, layout, schedule in _groups(batch):
        part = batch.take(rows)
        costs = stage_costs(prices, core.index[rows], mask[rows], plain[rows], part, layout, model, hardware, workload)
        _evaluate_group(result, rows, part, layout, schedule, costs, prices, model, hardware, workload)
    return result


def _mask_table(batch: StrategyBatch) -> tuple[tuple[int, ...], I64, I64]:
    """Distinct recompute masks, 0 always among them, and for each strategy its own and the one without "full"."""
    plain = batch.recompute & ~FULL
    masks = np.unique(np.concatenate([batch.recompute, plain, [0]]))
    return tuple(int(m) for m in masks), np.searchsorted(masks, batch.recompute), np.searchsorted(masks, plain)


def _groups(batch: StrategyBatch) -> Iterator[tuple[I64, Layout, str]]:
    """Rows that share a layout and a schedule."""
    key = batch.layout * len(SCHEDULES) + batch.schedule
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order], prepend=-1))
    for rows in np.split(order, edges[1:]):
        if len(rows):
            first = rows[0]
            yield rows, batch.layouts[int(batch.layout[first])], SCHEDULES[int(batch.schedule[first])]


def _empty(batch: StrategyBatch, model: ModelSpec, workload: Workload, per_rank: bool) -> StepCost:
    n = len(batch)
    ranks = int(batch.pp.max(initial=1))
    tokens = float(workload.global_batch) * workload.seq_length
    return StepCost(
        step_s=np.zeros(n), peak_reserved_bytes=np.zeros(n), peak_allocated_bytes=np.zeros(n),
        memory_rank=np.zeros(n, dtype=np.int64), critical_rank=np.zeros(n, dtype=np.int64),
        feasible=np.zeros(n, dtype=bool), bubble_s=np.zeros(n),
        model_flop=np.full(n, model_flop_per_token(model, workload) * tokens),
        time_s={cause: np.zeros(n) for cause in STEP_CAUSES}, memory_bytes={cause: np.zeros(n) for cause in mem.CAUSES},
        rank_busy_s=np.zeros((n, ranks)) if per_rank else None,
        rank_memory_bytes={cause: np.zeros((n, ranks)) for cause in mem.CAUSES} if per_rank else None,
        rank_time_s={} if per_rank else None,
    )  # fmt: skip


def _evaluate_group(
    result: StepCost, rows: I64, batch: StrategyBatch, layout: Layout, schedule: str, costs: StageCosts, prices: LayerPrices,
    model: ModelSpec, hardware: HardwareProfile, workload: Workload,
) -> None:  # fmt: skip
    v_shaped = SCHEDULE_TABLE[schedule].v_shaped
    micro_batches = np.maximum(batch.micro_batches(workload.global_batch), 1)
    group = np.where(batch.micro_batch_group > 0, batch.micro_batch_group, layout.pp)
    dense, expert = mem.parameters_by_rank(prices, costs.point, layout, v_shaped, model)
    gather_parameters(costs, prices, batch, layout, hardware, workload)
    hidden = hide_expert_communication(costs, batch, layout, schedule, micro_batches, hardware)
    swap_activations(costs, batch, hardware)
    blocking = _blocking_p2p(costs, layout, schedule, workload)
    pipeline = pipeline_s(schedule, costs, layout, micro_batches, group)
    rank_forward = mem.sum_by_rank(costs.forward_s, layout, v_shaped)
    rank_backward = mem.sum_by_rank(costs.backward_input_s + costs.backward_weight_s, layout, v_shaped)
    busy = (rank_forward + rank_backward) * micro_batches[:, None]
    end = step_end(dense, expert, rank_forward, rank_backward, batch, model, hardware, workload)
    exposed = _exposed_after_slack(end.exposed_s, costs, layout, v_shaped)
    critical = np.argmax(busy, axis=1)
    _fill_times(result, rows, batch, layout, costs, prices, critical, micro_batches, pipeline, busy, end, exposed, hidden,
                blocking, hardware, workload, v_shaped)  # fmt: skip
    if result.rank_busy_s is not None:
        result.rank_busy_s[rows, : layout.pp] = busy
    _fill_memory(result, rows, batch, layout, schedule, costs, prices, dense, expert, micro_batches, group, model,
                 hardware, workload)  # fmt: skip


def _blocking_p2p(costs: StageCosts, layout: Layout, schedule: str, workload: Workload) -> F64:
    """Without overlap a rank waits for its sends: they cost each stage as computing does. Returns seconds per micro-batch
    and rank, [N]."""
    if layout.pp == 1:
        return np.zeros(len(costs.p2p_s))
    if workload.stack.overlap_p2p:
        return np.zeros(len(costs.p2p_s))
    costs.forward_s = costs.forward_s + costs.p2p_s[:, None]
    costs.backward_input_s = costs.backward_input_s + costs.p2p_s[:, None]
    blocking = 2.0 * layout.vpp * costs.p2p_s
    costs.p2p_s = np.zeros_like(costs.p2p_s)
    return blocking


def _exposed_after_slack(exposed: F64, costs: StageCosts, layout: Layout, v_shaped: bool) -> F64:
    """Later ranks finish their last backward earlier and start their first forward later, by the stages before them:
    that time hides their gradient reduction and parameter gathering. [N, P] -> [N]."""
    if layout.pp == 1 or v_shaped:
        return exposed.max(axis=1)
    first = costs.backward_input_s[:, : layout.pp] + costs.backward_weight_s[:, : layout.pp] + costs.p2p_s[:, None]
    slack = np.cumsum(first, axis=1) - first
    return np.maximum(exposed - slack, 0.0).max(axis=1)


def _fill_times(
    result: StepCost, rows: I64, batch: StrategyBatch, layout: Layout, costs: StageCosts, prices: LayerPrices, critical: I64,
    micro_batches: I64, pipeline: F64, busy: F64, end: StepEnd, exposed: F64, hidden: F64, blocking: F64,
    hardware: HardwareProfile, workload: Workload, v_shaped: bool,
) -> None:  # fmt: skip
    n = len(rows)
    at = np.arange(n)
    m = micro_batches.astype(float)
    rank_counts = mem.sum_by_rank(layout.counts.T.astype(float), layout, v_shaped).T  # [P, C]
    per_layer = prices.forward_s + prices.backward_input_s + prices.backward_weight_s
    family = np.einsum("nc,ncf->nf", rank_counts[critical], per_layer[costs.point]) * m[:, None]
    times = {name: family[:, i] for i, name in enumerate(FAMILIES)}
    hidden_rank = mem.sum_by_rank(hidden, layout, v_shaped)[at, critical] * m
    # What is hidden of recomputed dispatches comes off "recompute", which is the rest of the rank's busy time.
    times["ep_comm"] = np.maximum(times["ep_comm"] - hidden_rank, 0.0)
    times["pp_comm"] = blocking * m
    busy_critical = busy[at, critical]
    listed = np.sum(np.stack(list(times.values())), axis=0)
    # What the stage adds: recomputed modules, parameter gathers under ZeRO-3, waits for swapped activations.
    times["recompute"] = busy_critical - listed
    times["bubble"] = pipeline - busy_critical
    overheads = hardware.overheads
    times["dp_comm"] = (
        exposed + end.embedding_reduce_s + overheads.overlap_slowdown_frac * end.overlapped_s[at, critical]
    )
    times["optimizer"] = end.optimizer_s.max(axis=1)
    times["overhead"] = overheads.step_s + overheads.micro_batch_s * m
    total = np.sum(np.stack(list(times.values())), axis=0)
    doublings = np.log2(np.maximum(batch.devices / hardware.cards_per_node, 1.0))
    times["straggler"] = total * overheads.straggler_frac_per_doubling * doublings
    for cause, value in times.items():
        result.time_s[cause][rows] = value
    result.step_s[rows] = total + times["straggler"]
    result.bubble_s[rows] = times["bubble"]
    result.critical_rank[rows] = critical


def _fill_memory(
    result: StepCost, rows: I64, batch: StrategyBatch, layout: Layout, schedule: str, costs: StageCosts, prices: LayerPrices,
    dense: F64, expert: F64, micro_batches: I64, group: I64, model: ModelSpec, hardware: HardwareProfile, workload: Workload,
) -> None:  # fmt: skip
    v_shaped = SCHEDULE_TABLE[schedule].v_shaped
    chunks = held_chunks(schedule, layout, micro_batches, group, batch)
    held = mem.in_flight_by_chunk(chunks, group, layout.vpp) if not v_shaped else mem.in_flight_v(chunks, layout.vpp)
    causes = mem.static_bytes(dense, expert, batch, workload)
    causes["activations"] = mem.activation_bytes(costs.saved_bytes - costs.swapped_bytes, held, layout, v_shaped)
    shards = np.where(batch.zero_stage >= 1, batch.dp * batch.cp, 1).astype(float)
    work = workspace(prices, costs, batch, layout, v_shaped, model, workload, shards)
    losses = mem.sum_by_rank((layout.counts[:, -1] > 0).astype(float)[None], layout, v_shaped)
    head_saved = prices.saved_bytes[costs.point, costs.mask][:, -1, None] * losses
    one = mem.sum_by_rank(costs.saved_bytes, layout, v_shaped) / layout.vpp
    late = mem.late_optimizer_bytes(dense, expert, batch, workload)
    causes = at_the_peak(causes, head_saved, one, work, late)
    allocated = np.sum(np.stack(list(causes.values())), axis=0)
    causes |= mem.overhead_bytes(allocated, batch, hardware)
    reserved = np.sum(np.stack(list(causes.values())), axis=0)
    fullest = np.argmax(reserved, axis=1)
    at = np.arange(len(rows))
    result.memory_rank[rows] = fullest
    result.peak_reserved_bytes[rows] = reserved[at, fullest]
    result.peak_allocated_bytes[rows] = allocated[at, fullest]
    result.feasible[rows] = reserved[at, fullest] <= hardware.usable_bytes
    for cause in mem.CAUSES:
        result.memory_bytes[cause][rows] = causes[cause][at, fullest]
    if result.rank_memory_bytes is not None:
        for cause in mem.CAUSES:
            result.rank_memory_bytes[cause][rows, : layout.pp] = causes[cause]
