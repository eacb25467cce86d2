"""From the replayed state to the result: ends of ranks, tail of the step, lanes, memory, events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.blocks import BlockGraph
from autodeploy.schedule.lane_orders import LaneOrder
from autodeploy.schedule.live_memory import in_flight_chunks, peak_activation_bytes
from autodeploy.schedule.replay import NodeTimes
from autodeploy.schedule.request import EpMasking, SimulationRequest, SimulationResult, StepEvents
from autodeploy.schedule.templates import LANES

F64 = NDArray[np.float64]


def make_result(
    request: SimulationRequest,
    graph: BlockGraph,
    busy_kind_s: F64,
    state: F64,
    hops_s: F64,
    entry: LaneOrder | None,
    ends: str,
    masking: EpMasking | None,
    times: NodeTimes | None,
) -> SimulationResult:
    """`state` [1 + B, D, N] and `hops_s` [1 + S, N] as in `replay`; `busy_kind_s` [slot kinds, lanes, N]."""
    ranks = graph.schedule.pp
    end = state[graph.last_of_rank, :LANES].max(axis=1).T
    span = end - _first_start_s(graph, state, hops_s)
    pipeline, period = end.max(axis=1), span.max(axis=1)
    busy = _busy_s(graph, busy_kind_s)
    compute = busy[:, :, 0]
    reduction, optimizer, gather = _tail_s(request, ranks)
    reduced = (end if request.sync_optimizer else span) + reduction
    meets = np.broadcast_to(reduced.max(axis=1, keepdims=True), end.shape) if request.sync_optimizer else reduced
    activation = peak_activation_bytes(graph.schedule, request.memory) if request.memory else None
    peak = activation + request.memory.static_bytes if request.memory and activation is not None else None
    events = None
    if times is not None:
        events = _events(graph, times, hops_s, np.stack([reduction, optimizer, gather], axis=2), end, meets)
    return SimulationResult(
        step_s=(meets + optimizer + gather).max(axis=1),
        pipeline_s=pipeline,
        rank_span_s=span,
        busy_s=busy,
        idle_s=pipeline[:, None, None] - busy,
        bubble_s=pipeline[:, None] - compute,
        bubble_frac=1.0 - compute.sum(axis=1) / (ranks * pipeline),
        period_bubble_frac=1.0 - compute.sum(axis=1) / (ranks * period),
        in_flight_chunks=in_flight_chunks(graph.schedule),
        peak_activation_bytes=activation,
        peak_memory_bytes=peak,
        lane_order=(entry.name if entry else "none",) * request.scenarios,
        ends=(ends,) * request.scenarios,
        masking=masking,
        events=events,
    )


def _first_start_s(graph: BlockGraph, state: F64, hops_s: F64) -> F64:
    """When the first input of each rank arrives, [N, P]."""
    first = graph.first_of_rank - 1
    arrived = state[graph.source[first, 0], LANES + graph.source_stream[first, 0]]
    return np.asarray((arrived + hops_s[graph.hop[first, 0]]).T)


def _busy_s(graph: BlockGraph, busy_kind_s: F64) -> F64:
    """[N, P, lanes]."""
    counts = np.zeros((graph.schedule.pp, len(graph.kinds)))
    np.add.at(counts, (graph.rank, graph.kind), 1.0)
    kinds, lanes, scenarios = busy_kind_s.shape
    total = counts @ busy_kind_s.reshape(kinds, lanes * scenarios)
    return np.moveaxis(total.reshape(-1, lanes, scenarios), 2, 0)


def _tail_s(request: SimulationRequest, ranks: int) -> tuple[F64, F64, F64]:
    """Gradient reduction, optimizer, parameter gather, each [N, P]."""

    def full(value: F64 | float) -> F64:
        array = np.asarray(value, dtype=np.float64)
        return np.broadcast_to(array[:, None] if array.ndim == 1 else array, (request.scenarios, ranks))

    tail = request.tail
    return full(tail.gradient_reduction_s), full(tail.optimizer_s), full(tail.parameter_gather_s)


def _events(graph: BlockGraph, times: NodeTimes, hops_s: F64, tail_s: F64, end: F64, meets: F64) -> StepEvents:
    ops = np.array([[slot[min(j, len(slot) - 1)] for j in range(2)] for slot in graph.slots])
    mine = ops[times.slot, times.stream]
    return StepEvents(
        schedule=graph.schedule,
        times=times,
        rank=graph.rank[times.slot],
        kind=mine[:, 0],
        stage=mine[:, 1],
        micro_batch=mine[:, 2],
        paired=graph.paired[times.slot],
        p2p_s=hops_s,
        tail_s=tail_s,
        rank_end_s=end,
        meets_at_s=meets,
    )
