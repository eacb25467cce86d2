"""From the replayed step to the result: ends of ranks, tail of the step, lanes, memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.blocks import BlockGraph
from autodeploy.schedule.live_memory import in_flight_chunks, peak_activation_bytes
from autodeploy.schedule.request import SimulationRequest, SimulationResult

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def step_s(request: SimulationRequest, rows: I64, end_s: F64, start_s: F64) -> F64:
    """Seconds of the step of scenarios `rows`, [.., n], from those at which each rank ends and starts, [.., n, P]."""
    reduction, optimizer, gather = (each[rows] for each in tail_s(request))
    return np.asarray((meets_s(request, end_s, start_s, reduction) + optimizer + gather).max(axis=-1))


def meets_s(request: SimulationRequest, end_s: F64, start_s: F64, reduction_s: F64) -> F64:
    """When the optimizer of each rank may start."""
    if request.sync_optimizer:
        return np.broadcast_to((end_s + reduction_s).max(axis=-1, keepdims=True), end_s.shape)
    return np.asarray(end_s - start_s + reduction_s)


def make_result(
    request: SimulationRequest, graph: BlockGraph, busy_kind_s: F64, end_s: F64, start_s: F64
) -> SimulationResult:
    """`end_s`, `start_s` [N, P] as in `step_s`; `busy_kind_s` [slot kinds, lanes, N]."""
    ranks = graph.schedule.pp
    span = end_s - start_s
    pipeline, period = end_s.max(axis=1), span.max(axis=1)
    busy = _busy_s(graph, busy_kind_s)
    compute = busy[:, :, 0]
    activation = peak_activation_bytes(graph.schedule, request.memory) if request.memory else None
    peak = activation + request.memory.static_bytes if request.memory and activation is not None else None
    return SimulationResult(
        step_s=step_s(request, np.arange(request.scenarios), end_s, start_s),
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
        lane_order=("none",) * request.scenarios,
        ends=("none",) * request.scenarios,
        masking=None,
        events=None,
    )


def _busy_s(graph: BlockGraph, busy_kind_s: F64) -> F64:
    """[N, P, lanes]."""
    kinds, lanes, scenarios = busy_kind_s.shape
    total = graph.kinds_of_rank @ busy_kind_s.reshape(kinds, lanes * scenarios)
    return np.moveaxis(total.reshape(-1, lanes, scenarios), 2, 0)


def tail_s(request: SimulationRequest) -> tuple[F64, F64, F64]:
    """Gradient reduction, optimizer, parameter gather, each [N, P]."""

    def full(value: F64 | float) -> F64:
        array = np.asarray(value, dtype=np.float64)
        return np.broadcast_to(array[:, None] if array.ndim == 1 else array, (request.scenarios, request.pp))

    tail = request.tail
    return full(tail.gradient_reduction_s), full(tail.optimizer_s), full(tail.parameter_gather_s)
