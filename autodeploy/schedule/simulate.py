"""`simulate`: one training step of a batch of strategies, event by event.

Two levels, both exact. Slots are priced once per kind as max-plus matrices and the whole step is replayed slot by slot
for all scenarios at once; where events are asked for, every segment is replayed from the state its slot found.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.adaptive_pipe import adaptive_pipe_with
from autodeploy.schedule.blocks import BlockGraph, build_graph
from autodeploy.schedule.choose import choose_lane_orders, slot_templates
from autodeploy.schedule.costs import LayerSegments, StepTail
from autodeploy.schedule.lane_orders import CATALOGUE, LaneOrder, lane_order
from autodeploy.schedule.live_memory import in_flight_chunks, peak_activation_bytes
from autodeploy.schedule.masking import ep_masking
from autodeploy.schedule.operations import F, OrderCosts, Schedule
from autodeploy.schedule.replay import node_times, price_slots, replay
from autodeploy.schedule.request import EpMasking, SimulationRequest, SimulationResult, StepEvents
from autodeploy.schedule.segments import IS_EP, Segment
from autodeploy.schedule.table import PLANS_WITH_COSTS, build_schedule

F64 = NDArray[np.float64]


def simulate(request: SimulationRequest) -> SimulationResult:
    """Step time, bubble, lanes, memory and masked all-to-all of each scenario of `request`."""
    segments = _with_sends(request)
    if not request.overlaps_lanes:
        return _run(request, segments, _schedule(request, segments, True), None)
    ends = (True, False) if request.pair_ends is None else (request.pair_ends,)
    if request.schedule != "adaptive-pipe":
        ends = (False,)
    results = [_simulate_lanes(request, segments, _schedule(request, segments, pair)) for pair in ends]
    if len(results) == 1:
        return results[0]
    faster = (results[1].step_s < results[0].step_s).astype(np.int64)
    if request.scenarios == 1 or (faster == faster[0]).all():
        return results[int(faster[0])]
    return _merge(results, faster)


def _schedule(request: SimulationRequest, segments: LayerSegments, pair_ends: bool) -> Schedule:
    if request.schedule == "adaptive-pipe":
        pair = pair_ends and request.overlaps_lanes
        return adaptive_pipe_with(request.shape(), pair_warm_up=pair, pair_cool_down=pair)
    costs = None
    if request.schedule in PLANS_WITH_COSTS:
        costs = request.order_costs or _mean_costs(request, segments)
    return build_schedule(request.schedule, request.shape(costs))


def _mean_costs(request: SimulationRequest, segments: LayerSegments) -> OrderCosts:
    stage = segments.stage_costs()
    kept = request.memory.weight_kept_frac if request.memory else 0.5
    return OrderCosts(
        forward_s=tuple(stage.forward_s.mean(axis=0)),
        backward_input_s=tuple(stage.backward_input_s.mean(axis=0)),
        backward_weight_s=tuple(stage.backward_weight_s.mean(axis=0)),
        p2p_s=float(np.mean(request.p2p_s)),
        weight_kept_frac=kept,
    )


def _hop_s(request: SimulationRequest) -> F64:
    """Seconds of each hop, [N, S]."""
    p2p = np.asarray(request.p2p_s, dtype=np.float64)
    if p2p.ndim == 1:
        p2p = p2p[:, None]
    return np.broadcast_to(p2p, (request.scenarios, request.stages))


def _with_sends(request: SimulationRequest) -> LayerSegments:
    """Adds the sends that hold the sender's compute lane, where P2P is exposed."""
    segments = request.segments
    if not request.p2p_exposed:
        return segments
    seconds = segments.seconds.copy()
    hop = _hop_s(request)
    has_layers = (seconds > 0).any(axis=(0, 3))
    for stage in range(request.stages):
        used = np.flatnonzero(has_layers[stage])
        first, last = (used[0], used[-1]) if len(used) else (0, 0)
        if stage + 1 < request.stages:
            seconds[:, stage, last, Segment.SEND_F] = hop[:, stage]
        if stage:
            seconds[:, stage, first, Segment.SEND_B] = hop[:, stage - 1]
    return LayerSegments(seconds=seconds)


def _simulate_lanes(request: SimulationRequest, segments: LayerSegments, schedule: Schedule) -> SimulationResult:
    """Chooses lane orders, then runs the scenarios of each order together."""
    if request.lane_order is not None:
        return _run(request, segments, schedule, lane_order(request.lane_order))
    graph = build_graph(schedule)
    chosen = choose_lane_orders(graph, segments.structures(), segments.packed())
    parts = sorted(set(chosen.tolist()))
    if len(parts) == 1:
        return _run(request, segments, schedule, CATALOGUE[parts[0]])
    results = [
        _run(
            take(request, chosen == part),
            LayerSegments(seconds=segments.seconds[chosen == part]),
            schedule,
            CATALOGUE[part],
        )
        for part in parts
    ]
    return _scatter(results, [np.flatnonzero(chosen == part) for part in parts])


def take(request: SimulationRequest, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> SimulationRequest:
    """The same request for some of its scenarios."""
    count = request.scenarios

    def part(value: F64 | float) -> F64 | float:
        return value[chosen] if isinstance(value, np.ndarray) and value.ndim and value.shape[0] == count else value

    costs = request.costs
    if isinstance(costs, LayerSegments):
        costs = LayerSegments(seconds=costs.seconds[chosen])
    else:
        costs = replace(
            costs,
            forward_s=costs.forward_s[chosen],
            backward_input_s=costs.backward_input_s[chosen],
            backward_weight_s=costs.backward_weight_s[chosen],
        )
    memory = request.memory
    if memory is not None:
        memory = replace(
            memory, activation_bytes=memory.activation_bytes[chosen], static_bytes=part(memory.static_bytes)
        )
    tail = StepTail(
        gradient_reduction_s=part(request.tail.gradient_reduction_s),
        parameter_gather_s=part(request.tail.parameter_gather_s),
        optimizer_s=part(request.tail.optimizer_s),
    )
    return replace(
        request,
        costs=costs,
        p2p_s=part(request.p2p_s),
        pair_saving_frac=part(request.pair_saving_frac),
        memory=memory,
        tail=tail,
    )


def _run(
    request: SimulationRequest, segments: LayerSegments, schedule: Schedule, entry: LaneOrder | None
) -> SimulationResult:
    graph = build_graph(schedule)
    joint = request.schedule in ("dualpipe", "dualpipev")
    templates = slot_templates(
        graph, segments.structures(), entry, joint, early_gradient=request.schedule == "adaptive-pipe"
    )
    delay = np.zeros((request.stages + 1, request.scenarios))
    if not request.p2p_exposed:
        delay[1:] = _hop_s(request).T
    saving = np.asarray(request.pair_saving_frac, dtype=np.float64)
    scale = 1.0 - np.broadcast_to(saving, (request.scenarios,)) if saving.any() else None
    prices = price_slots(graph, templates, segments.packed(), scale)
    state = replay(graph, prices.matrix, delay)
    events = masking = None
    pair_mask = np.array([len(slot) == 2 and slot[0][0] != slot[1][0] for slot in graph.slots])
    if request.keep_events:
        events_times = node_times(graph, prices, state, delay)
        if np.array(IS_EP)[events_times.segment].any():
            masking = _masking(request, segments, graph, templates, delay, scale, pair_mask)
        events = events_times
    return _result(request, schedule, graph, prices.busy_s, state, delay, entry, masking, events, pair_mask)


def _masking(
    request: SimulationRequest,
    segments: LayerSegments,
    graph: BlockGraph,
    templates: list,
    delay: F64,
    scale: F64 | None,
    steady: NDArray[np.bool_],
) -> EpMasking:
    times = []
    for costs in (segments.packed(), _zero_ep(segments.packed())):
        prices = price_slots(graph, templates, costs, scale)
        times.append(node_times(graph, prices, replay(graph, prices.matrix, delay), delay))
    return ep_masking(graph, times[0], times[1], steady)


def _zero_ep(packed_s: F64) -> F64:
    return np.where(np.array(IS_EP)[None, None, :, None], 0.0, packed_s)


def _result(
    request: SimulationRequest,
    schedule: Schedule,
    graph: BlockGraph,
    busy_kind_s: F64,
    state: F64,
    delay: F64,
    entry: LaneOrder | None,
    masking: EpMasking | None,
    times: object,
    pair_mask: NDArray[np.bool_],
) -> SimulationResult:
    n, p = request.scenarios, schedule.pp
    end = state[graph.last_of_rank, :3].max(axis=1).T
    first = graph.first_of_rank
    arrived = state[graph.source[first - 1, 0], 3 + graph.source_stream[first - 1, 0]] + delay[graph.hop[first - 1, 0]]
    span = end - arrived.T
    counts = np.zeros((p, len(graph.kinds)))
    np.add.at(counts, (graph.rank, graph.kind), 1.0)
    busy = np.einsum("pk,kln->npl", counts, busy_kind_s)
    pipeline = end.max(axis=1)
    tail = [np.broadcast_to(np.asarray(t, dtype=np.float64), (n, p)) for t in _tail_parts(request)]
    reduced = (end if request.sync_optimizer else span) + tail[0]
    meets = np.broadcast_to(reduced.max(axis=1, keepdims=True), (n, p)) if request.sync_optimizer else reduced
    step = (meets + tail[1] + tail[2]).max(axis=1)
    compute = busy[:, :, 0]
    memory = request.memory
    activation = peak_activation_bytes(schedule, memory) if memory else None
    return SimulationResult(
        step_s=step,
        pipeline_s=pipeline,
        rank_span_s=span,
        busy_s=busy,
        idle_s=pipeline[:, None, None] - busy,
        bubble_s=pipeline[:, None] - compute,
        bubble_frac=1.0 - compute.sum(axis=1) / (p * pipeline),
        period_bubble_frac=1.0 - compute.sum(axis=1) / (p * span.max(axis=1)),
        in_flight_chunks=in_flight_chunks(schedule),
        peak_activation_bytes=activation,
        peak_memory_bytes=activation + memory.static_bytes if memory and activation is not None else None,
        lane_order=(entry.name if entry else "none",) * n,
        pair_ends=np.full(n, any(len(s) == 2 and s[0][0] == s[1][0] == F for s in graph.slots)),
        masking=masking,
        events=_events(graph, schedule, times, delay, tail, end, meets, pair_mask) if times is not None else None,
    )


def _tail_parts(request: SimulationRequest) -> tuple[F64 | float, F64 | float, F64 | float]:
    tail = request.tail
    return tail.gradient_reduction_s, tail.optimizer_s, tail.parameter_gather_s


def _events(
    graph: BlockGraph,
    schedule: Schedule,
    times: object,
    delay: F64,
    tail: list[F64],
    end: F64,
    meets: F64,
    pair_mask: NDArray[np.bool_],
) -> StepEvents:
    from autodeploy.schedule.replay import NodeTimes

    assert isinstance(times, NodeTimes)
    ops = np.array([[slot[min(j, len(slot) - 1)] for j in range(2)] for slot in graph.slots])
    mine = ops[times.slot, times.stream]
    return StepEvents(
        schedule=schedule,
        times=times,
        rank=graph.rank[times.slot],
        kind=mine[:, 0],
        stage=mine[:, 1],
        micro_batch=mine[:, 2],
        paired=pair_mask[times.slot],
        p2p_s=delay,
        tail_s=np.stack(tail, axis=2),
        rank_end_s=end,
        meets_at_s=meets,
    )


def _scatter(results: list[SimulationResult], where: list[NDArray[np.int64]]) -> SimulationResult:
    """Puts the results of parts of a batch back in the order of the batch; events are not kept across parts."""
    count = sum(len(w) for w in where)
    first = results[0]

    def join(name: str) -> F64 | None:
        if getattr(first, name) is None:
            return None
        joined = np.empty((count, *getattr(first, name).shape[1:]), dtype=getattr(first, name).dtype)
        for result, at in zip(results, where, strict=True):
            joined[at] = getattr(result, name)
        return joined

    names = ("step_s pipeline_s rank_span_s busy_s idle_s bubble_s bubble_frac period_bubble_frac").split()
    names += ["peak_activation_bytes", "peak_memory_bytes", "pair_ends"]
    orders = [""] * count
    for result, at in zip(results, where, strict=True):
        for i, n in enumerate(at):
            orders[n] = result.lane_order[i]
    return replace(first, **{name: join(name) for name in names}, lane_order=tuple(orders), masking=None, events=None)


def _merge(results: list[SimulationResult], which: NDArray[np.int64]) -> SimulationResult:
    """Row n from `results[which[n]]`."""
    names = ("step_s pipeline_s rank_span_s busy_s idle_s bubble_s bubble_frac period_bubble_frac").split()
    names += ["peak_activation_bytes", "peak_memory_bytes", "pair_ends"]
    merged = {}
    for name in names:
        values = [getattr(r, name) for r in results]
        if values[0] is not None:
            merged[name] = np.stack(values)[which, np.arange(len(which))]
    orders = tuple(results[w].lane_order[n] for n, w in enumerate(which))
    return replace(results[0], **merged, lane_order=orders, masking=None, events=None)
