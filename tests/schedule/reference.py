"""Small, slow simulators written apart from the package's own, to hold it against.

`in_order`: each rank runs its operations in the given order; times by plain fixed-point relaxation over operations.
`dynamic`: nodes of three lanes; compute in the given order, but communication lanes serve whoever is ready first.
"""

from __future__ import annotations

import heapq

import numpy as np

from autodeploy.schedule.operations import B, F, I, Schedule, W
from autodeploy.schedule.segments import COMPUTE, LANE_OF, Structure, build_streams


def in_order(schedule: Schedule, forward: np.ndarray, gradient: np.ndarray, weight: np.ndarray, hop: float) -> float:
    """Makespan of one scenario, costs [S]; slots with two operations start and end together."""
    end: dict[tuple[int, int, int], float] = {}
    clock = [0.0] * schedule.pp
    at = [0] * schedule.pp
    rank = schedule.rank
    moved = True
    while moved:
        moved = False
        for r, order in enumerate(schedule.orders):
            while at[r] < len(order):
                ready, length = clock[r], 0.0
                for kind, stage, i in order[at[r]]:
                    length += {F: forward, B: gradient + weight, I: gradient, W: weight}[kind][stage]
                    need = None
                    if kind == F and stage:
                        need = (F, stage - 1, i)
                    elif kind in (B, I):
                        need = (F, stage, i) if stage == schedule.stages - 1 else (B, stage + 1, i)
                    if need is not None:
                        ready = max(ready, end.get(need, np.inf) + hop * (rank(need[1], i) != r))
                if ready == np.inf:
                    break
                clock[r] = ready + length
                for kind, stage, i in order[at[r]]:
                    if kind != W:
                        end[B if kind == I else kind, stage, i] = clock[r]
                at[r] += 1
                moved = True
    assert all(a == len(order) for a, order in zip(at, schedule.orders, strict=True))
    return max(clock)


def dynamic(
    schedule: Schedule, structures: tuple[Structure, ...], seconds: np.ndarray, hop: float, sequences: dict
) -> float:
    """Makespan; `seconds` [S, L, K]. `sequences` gives the compute order inside each kind of slot."""
    nodes, after, out = _nodes(schedule, structures, sequences)
    lanes: list[list[list[tuple[float, int]]]] = [[[] for _ in range(3)] for _ in range(schedule.pp)]
    ready = [0.0] * len(nodes)
    followers: list[list[tuple[int, float]]] = [[] for _ in nodes]
    missing = [len(a) for a in after]
    for at, before in enumerate(after):
        for b, hops in before:
            followers[b].append((at, hop * hops))
    free = [[True] * 3 for _ in range(schedule.pp)]
    events: list[tuple[float, int]] = []

    def start(rank: int, lane: int, now: float) -> None:
        if free[rank][lane] and lanes[rank][lane]:
            _, at = heapq.heappop(lanes[rank][lane])
            free[rank][lane] = False
            _, _, stage, layer, segment, pieces = nodes[at]
            heapq.heappush(events, (now + seconds[stage, layer, segment] / pieces, at))

    arrivals: list[tuple[float, int]] = [(0.0, at) for at in range(len(nodes)) if not missing[at]]
    heapq.heapify(arrivals)
    now = 0.0
    while arrivals or events:
        if not events or (arrivals and arrivals[0][0] <= events[0][0]):
            now, at = heapq.heappop(arrivals)
            heapq.heappush(lanes[nodes[at][0]][nodes[at][1]], (now, at))
            start(nodes[at][0], nodes[at][1], now)
            continue
        now, at = heapq.heappop(events)
        free[nodes[at][0]][nodes[at][1]] = True
        for f, delay in followers[at]:
            missing[f] -= 1
            ready[f] = max(ready[f], now + delay)
            if not missing[f]:
                heapq.heappush(arrivals, (ready[f], f))
        start(nodes[at][0], nodes[at][1], now)
    assert not any(missing), "waits in a circle"
    return now


def _nodes(schedule: Schedule, structures: tuple[Structure, ...], sequences: dict) -> tuple[list, list, dict]:
    """All nodes (rank, lane, stage, layer, segment, pieces) and what each waits for [(node, hops)]."""
    nodes: list = []
    after: list = []
    made: dict = {}
    entries: list = []
    for rank, order in enumerate(schedule.orders):
        last_compute = None
        for slot in order:
            kinds = tuple(op[0] for op in slot)
            shapes = tuple(structures[op[1]] for op in slot)
            streams, sequence = sequences.get((kinds, shapes)) or (
                build_streams(kinds, shapes, early_gradient=True),
                None,
            )
            first = len(nodes)
            for node in streams.nodes:
                op = slot[node.stream]
                nodes.append((rank, LANE_OF[node.segment], op[1], node.layer, node.segment, node.pieces))
                after.append({(first + a, 0) for a in node.after})
                if node.entry:
                    entries.append((len(nodes) - 1, op, rank))
            for n in sequence or range(len(streams.nodes)):
                if streams.nodes[n].lane == COMPUTE:
                    if last_compute is not None:
                        after[first + n].add((last_compute, 0))
                    last_compute = first + n
            for stream, exits in enumerate(streams.exits):
                kind, stage, i = slot[stream]
                made[F if kind == F else B, stage, i] = ([first + n for n in exits], rank)
    for at, (kind, stage, i), rank in entries:
        if kind == F and stage == 0 or kind == W:
            continue
        need = (F, stage - 1, i) if kind == F else (B, stage + 1, i)
        if kind != F and stage == schedule.stages - 1:
            need = (F, stage, i)
        exits, made_on = made[need]
        after[at] |= {(n, int(made_on != rank)) for n in exits}
    return nodes, after, made
