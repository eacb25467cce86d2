"""Every segment of a replayed step: its nodes, slot by slot, from the state that the slot found.

Axes: N scenarios, E events.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.masking import ep_masking
from autodeploy.schedule.outcome import meets_s, tail_s
from autodeploy.schedule.pricing import SlotCosts, by_template, transfer_matrices
from autodeploy.schedule.replay import Run, replay
from autodeploy.schedule.request import NodeTimes, SimulationResult, StepEvents
from autodeploy.schedule.segments import IS_EP, SEGMENTS
from autodeploy.schedule.templates import INPUTS, LANES, Template, node_ends_s
from autodeploy.schedule.work import Work

F64 = NDArray[np.float64]
EP = np.array(IS_EP)


def with_events(
    result: SimulationResult, work: Work, ends: int, entry: str | None, ends_s: tuple[F64, F64]
) -> SimulationResult:
    """The result of all scenarios of `work` with its events. `ends_s`: end and start of each rank, [N, P]."""
    graph, templates, costs = work.graphs[ends], work.templates(entry), work.costs()
    times = _node_times(work, ends, templates, costs)
    masking = None
    if EP[times.segment].any():
        silent = np.where(np.tile(EP, len(costs.seconds) // SEGMENTS)[:, None], 0.0, costs.seconds)
        without = replace(costs, seconds=silent, piece_overhead_s=0.0)
        masking = ep_masking(graph, times, _node_times(work, ends, templates, without))
    ops = graph.ops[times.slot, times.stream].astype(np.int64)
    reduction, optimizer, gather = tail_s(work.request)
    hops = work.hops_s
    events = StepEvents(
        schedule=graph.schedule,
        times=times,
        rank=graph.rank[times.slot].astype(np.int64),
        kind=ops[:, 0],
        stage=ops[:, 1],
        micro_batch=ops[:, 2],
        paired=graph.paired[times.slot],
        p2p_s=np.zeros((work.request.stages + 1, work.request.scenarios)) if hops is None else hops,
        tail_s=np.stack([reduction, optimizer, gather], axis=2),
        rank_end_s=ends_s[0],
        meets_at_s=meets_s(work.request, *ends_s, reduction),
    )
    return replace(result, masking=masking, events=events)


def _node_times(work: Work, ends: int, templates: list[Template], costs: SlotCosts) -> NodeTimes:
    """Replays the slots, then the nodes of each."""
    graph, slot = work.graphs[ends], work.slot_of[ends]
    matrix = transfer_matrices(templates, costs, range(INPUTS))
    state, _ = replay([Run(graph=graph, slot=slot, hops_s=work.hops_s)], matrix, range(INPUTS))
    parts, of_slot = [], slot[graph.kind]
    for template, slots in by_template(templates):
        at = np.flatnonzero(np.isin(of_slot, slots))
        durations = costs.durations_s(template, of_slot[at])
        node_ends = node_ends_s(template, list(np.moveaxis(durations, 1, 0)), _inputs_s(work, ends, state, at))
        for n, (node, end) in enumerate(zip(template.nodes, node_ends, strict=True)):
            fixed = np.array([node.stream, node.layer, node.segment, template.arrays.lane[n]])
            parts.append((end - durations[:, n], end, at, np.tile(fixed[:, None], (1, len(at)))))
    start, end, at, fixed = (
        np.concatenate(each, axis=axis) for each, axis in zip(zip(*parts, strict=True), (0, 0, 0, 1), strict=True)
    )
    return NodeTimes(
        start_s=start, end_s=end, slot=at, stream=fixed[0], layer=fixed[1], segment=fixed[2], lane=fixed[3]
    )


def _inputs_s(work: Work, ends: int, state: F64, slots: NDArray[np.intp]) -> list[F64]:
    """The clocks that some slots find, and when their inputs arrive, [slots, N] each."""
    graph = work.graphs[ends]
    inputs = [state[lane, graph.previous[slots]] for lane in range(LANES)]
    for j in range(INPUTS - LANES):
        arrived = state[LANES + graph.source_stream[slots, j], graph.source[slots, j]]
        inputs.append(arrived if work.hops_s is None else arrived + work.hops_s[graph.hop[slots, j]])
    return inputs
