"""`simulate`: one training step of a batch of strategies, event by event.

Two levels, both exact. Slots are priced once per kind as max-plus matrices and the whole step is replayed slot by slot
for all scenarios at once; where events are asked for, every segment is replayed from the state its slot found.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.adaptive_pipe import adaptive_pipe_with
from autodeploy.schedule.alike import first_best, order_costs, parts_alike, plan_costs_s
from autodeploy.schedule.batches import join, take
from autodeploy.schedule.blocks import BlockGraph, build_graph
from autodeploy.schedule.choose import promising_lane_orders, slot_templates
from autodeploy.schedule.costs import LayerSegments
from autodeploy.schedule.lane_orders import CATALOGUE, LaneOrder, lane_order
from autodeploy.schedule.masking import ep_masking
from autodeploy.schedule.operations import OrderCosts, Schedule
from autodeploy.schedule.outcome import make_result
from autodeploy.schedule.replay import NodeTimes, SlotPrices, node_times, price_slots, replay
from autodeploy.schedule.request import EpMasking, SimulationRequest, SimulationResult
from autodeploy.schedule.segments import COMPUTE, INTER, IS_EP, Segment
from autodeploy.schedule.table import build_schedule
from autodeploy.schedule.templates import Template
from cost_models.schedules import SCHEDULE_TABLE

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
BLOCK = 128  # scenarios replayed at a time: the arrays of a level stay in cache


def simulate(request: SimulationRequest) -> SimulationResult:
    """Step time, bubble, lanes, memory and masked all-to-all of each scenario of `request`."""
    parts = _parts(request)
    if len(parts) > 1:
        return join([_simulate_alike(take(request, at)) for at in parts], parts)
    return _simulate_alike(request)


def _parts(request: SimulationRequest) -> list[I64]:
    """Scenarios that share a graph, at most a block of them where no events are asked for."""
    plans = SCHEDULE_TABLE[request.schedule].plans_with_costs and request.order_costs is None
    parts = parts_alike(_with_sends(request), plan_costs_s(request) if plans else None)
    size = request.scenarios if request.keep_events else BLOCK
    return [at[start : start + size] for at in parts for start in range(0, len(at), size)]


def _simulate_alike(request: SimulationRequest) -> SimulationResult:
    if not request.overlaps_lanes:
        return _run(request, _schedule(request, "none"), None, "none")
    chosen = _fastest(replace(request, keep_events=False))
    parts = [np.flatnonzero(chosen == k) for k in np.unique(chosen)]
    ways = _ways(request)
    results = []
    for at in parts:
        entry, ends = ways[chosen[at[0]]]
        part = request if len(parts) == 1 else take(request, at)
        results.append(_run(part, _schedule(request, ends), entry, ends))
    return results[0] if len(parts) == 1 else join(results, parts)


def _ways(request: SimulationRequest) -> list[tuple[LaneOrder, str]]:
    """Lane orders and pairs at the ends. Pairs in the warm-up pay where groups are longer than pp; else seldom."""
    ends: tuple[str, ...] = ("none",)
    if SCHEDULE_TABLE[request.schedule].pairs_ends:
        ends = (request.ends,) if request.ends is not None else ("none", "warm-up")
    return [(entry, end) for entry in CATALOGUE for end in ends]


def _fastest(request: SimulationRequest) -> I64:
    """Index into `_ways` of the one in which each scenario is fastest, [N]: the lane orders that promise most are tried."""
    ways, tries = _ways(request), _orders_to_try(request)
    ends = len(ways) // len(CATALOGUE)
    if tries.sum() == request.scenarios and ends == 1:
        return np.asarray(tries.argmax(axis=0))
    seconds = np.full((len(ways), request.scenarios), np.inf)
    for way, (entry, end) in enumerate(ways):
        at = np.flatnonzero(tries[way // ends])
        if len(at):
            part = request if len(at) == request.scenarios else take(request, at)
            seconds[way, at] = _run(part, _schedule(request, end), entry, end).step_s
    return first_best(seconds)


def _orders_to_try(request: SimulationRequest) -> NDArray[np.bool_]:
    """[catalogue, N]"""
    if request.lane_order is not None:
        named = CATALOGUE.index(lane_order(request.lane_order))
        return np.repeat(np.arange(len(CATALOGUE))[:, None] == named, request.scenarios, axis=1)
    graph = build_graph(_schedule(request, "none"))
    segments = _with_sends(request)
    return promising_lane_orders(graph, segments.structures(), segments.packed(), request.piece_overhead_s)


def _schedule(request: SimulationRequest, ends: str) -> Schedule:
    if SCHEDULE_TABLE[request.schedule].pairs_ends:
        return adaptive_pipe_with(
            request.shape(), pair_warm_up=ends in ("warm-up", "both"), pair_cool_down=ends in ("cool-down", "both")
        )
    return build_schedule(request.schedule, request.shape(_order_costs(request)))


def _order_costs(request: SimulationRequest) -> OrderCosts | None:
    """What an automatic schedule plans with: as given, or the costs of these scenarios, which plan alike."""
    if not SCHEDULE_TABLE[request.schedule].plans_with_costs or request.order_costs is not None:
        return request.order_costs
    kept = request.memory.weight_kept_frac if request.memory else 0.5
    return order_costs(plan_costs_s(request)[0], kept)


def _hop_s(request: SimulationRequest) -> F64:
    """Seconds of each hop, [N, S]."""
    p2p = np.asarray(request.p2p_s, dtype=np.float64)
    return np.broadcast_to(p2p[:, None] if p2p.ndim == 1 else p2p, (request.scenarios, request.stages))


def _with_sends(request: SimulationRequest) -> LayerSegments:
    """Adds the sends that hold a lane of the sender."""
    segments = request.segments
    if not request.sends:
        return segments
    seconds = segments.seconds.copy()
    hop = _hop_s(request)
    has_layers: NDArray[np.bool_] = np.any(seconds > 0, axis=(0, 3))
    for stage in range(request.stages):
        used = np.flatnonzero(has_layers[stage])
        first, last = (used[0], used[-1]) if len(used) else (0, 0)
        if stage + 1 < request.stages:
            seconds[:, stage, last, Segment.SEND_F] = hop[:, stage]
        if stage:
            seconds[:, stage, first, Segment.SEND_B] = hop[:, stage - 1]
    return LayerSegments(seconds=seconds)


def _run(request: SimulationRequest, schedule: Schedule, entry: LaneOrder | None, ends: str) -> SimulationResult:
    """All scenarios of the request through one graph."""
    graph = build_graph(schedule)
    segments = _with_sends(request)
    pairs, send_lane = SCHEDULE_TABLE[request.schedule].pairs, COMPUTE if request.p2p_exposed else INTER
    templates = slot_templates(graph, segments.structures(), entry, pairs, send_lane)
    hops = np.zeros((request.stages + 1, request.scenarios))
    if not request.sends:
        hops[1:] = _hop_s(request).T
    prices, state = _replayed(request, graph, templates, segments.packed(), hops)
    times = masking = None
    if request.keep_events:
        times = node_times(graph, prices, state, hops)
        masking = _masking(request, graph, templates, segments.packed(), hops, times)
    return make_result(request, graph, prices.busy_s, state, hops, entry, ends, masking, times)


def _replayed(
    request: SimulationRequest, graph: BlockGraph, templates: list[Template], packed_s: F64, hops_s: F64
) -> tuple[SlotPrices, F64]:
    saving = np.asarray(request.pair_saving_frac, dtype=np.float64)
    scale = 1.0 - np.broadcast_to(saving, (request.scenarios,)) if saving.any() else None
    prices = price_slots(graph.kinds, templates, packed_s, scale, request.piece_overhead_s)
    return prices, replay(graph, prices.matrix, hops_s)


def _masking(
    request: SimulationRequest,
    graph: BlockGraph,
    templates: list[Template],
    packed_s: F64,
    hops_s: F64,
    times: NodeTimes,
) -> EpMasking | None:
    """Compares the events with those of the same lane orders when all-to-alls take no time."""
    ep = np.array(IS_EP)
    if not ep[times.segment].any():
        return None
    without_s = np.where(ep[None, None, :, None], 0.0, packed_s)
    prices, state = _replayed(replace(request, piece_overhead_s=0.0), graph, templates, without_s, hops_s)
    return ep_masking(graph, times, node_times(graph, prices, state, hops_s))
