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
from autodeploy.schedule.batches import join, rows, take
from autodeploy.schedule.blocks import BlockGraph, build_graph
from autodeploy.schedule.choose import choose_lane_orders, slot_templates
from autodeploy.schedule.costs import LayerSegments
from autodeploy.schedule.lane_orders import CATALOGUE, LaneOrder, lane_order
from autodeploy.schedule.masking import ep_masking
from autodeploy.schedule.operations import OrderCosts, Schedule
from autodeploy.schedule.outcome import make_result
from autodeploy.schedule.replay import NodeTimes, SlotPrices, node_times, price_slots, replay
from autodeploy.schedule.request import EpMasking, SimulationRequest, SimulationResult
from autodeploy.schedule.segments import IS_EP, Segment
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
    entries = _chosen_orders(request)
    parts = [np.flatnonzero(entries == k) for k in sorted(set(entries.tolist()))]
    if len(parts) == 1:
        return _best_ends(request, CATALOGUE[entries[0]])
    return join([_best_ends(take(request, at), CATALOGUE[entries[at[0]]]) for at in parts], parts)


def _best_ends(request: SimulationRequest, entry: LaneOrder) -> SimulationResult:
    """Runs with each candidate for the two ends, keeps the faster per scenario."""
    if not SCHEDULE_TABLE[request.schedule].pairs_ends:
        return _run(request, _schedule(request, "none"), entry, "none")
    modes = _ends_to_try(request)
    if len(modes) > 1 and request.keep_events:
        quick = _best_ends(replace(request, keep_events=False), entry)
        modes = tuple(sorted(set(quick.ends)))
    results = [_run(request, _schedule(request, mode), entry, mode) for mode in modes]
    if len(results) == 1:
        return results[0]
    best = first_best(np.array([result.step_s for result in results]))
    kept = [np.flatnonzero(best == k) for k in range(len(results))]
    for result, at in zip(results, kept, strict=True):
        if len(at) == request.scenarios:
            return result
    return join([rows(result, at) for result, at in zip(results, kept, strict=True)], kept)


def _ends_to_try(request: SimulationRequest) -> tuple[str, ...]:
    """Pairs in the warm-up pay where groups are longer than pp; with groups of pp they seldom do."""
    return (request.ends,) if request.ends is not None else ("none", "warm-up")


def _chosen_orders(request: SimulationRequest) -> NDArray[np.int64]:
    """Index into the catalogue, [N]."""
    if request.lane_order is not None:
        return np.full(request.scenarios, CATALOGUE.index(lane_order(request.lane_order)))
    graph = build_graph(_schedule(request, "none"))
    segments = _with_sends(request)
    return choose_lane_orders(graph, segments.structures(), segments.packed(), request.piece_overhead_s)


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
    """Adds the sends that hold the sender's compute lane, where P2P is exposed."""
    segments = request.segments
    if not request.p2p_exposed:
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
    pairs = SCHEDULE_TABLE[request.schedule].pairs
    templates = slot_templates(
        graph, segments.structures(), entry, joint=pairs == "joint", early_gradient=pairs == "early"
    )
    hops = np.zeros((request.stages + 1, request.scenarios))
    if not request.p2p_exposed:
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
