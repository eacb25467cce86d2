"""Templates for the slots of a graph, and the choice of a lane order per scenario."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.blocks import BlockGraph
from autodeploy.schedule.lane_orders import CATALOGUE, LaneOrder, ordered_streams
from autodeploy.schedule.operations import B, F
from autodeploy.schedule.replay import price_slots
from autodeploy.schedule.segments import Structure, build_streams
from autodeploy.schedule.templates import LANES, Template, make_template

F64 = NDArray[np.float64]


@lru_cache(maxsize=8192)
def slot_template(
    kinds: tuple[int, ...],
    structures: tuple[Structure, ...],
    entry: LaneOrder | None,
    joint: bool = False,
    early_gradient: bool = True,
) -> Template:
    """The template of a slot; without an entry nothing overlaps."""
    if entry is None:
        streams = build_streams(kinds, structures)
        return make_template(streams, tuple(range(len(streams.nodes))), blocking=True, joint=joint)
    streams, sequence = ordered_streams(kinds, structures, entry, early_gradient)
    return make_template(streams, sequence, blocking=False, joint=joint)


def slot_templates(
    graph: BlockGraph, structures: tuple[Structure, ...], entry: LaneOrder | None, joint: bool, early_gradient: bool
) -> list[Template]:
    """One per slot kind of the graph."""
    return [
        slot_template(kinds, tuple(structures[s] for s in stages), entry, joint and len(kinds) == 2, early_gradient)
        for kinds, stages in graph.kinds
    ]


def choose_lane_orders(
    graph: BlockGraph, structures: tuple[Structure, ...], packed_s: F64, piece_overhead_s: float
) -> NDArray[np.int64]:
    """Index into `CATALOGUE` of the lane order with the shortest estimated step of each scenario, [N].

    Estimate: micro-batches x chunks x the pace of the paired slots of the rank with most work, and for the ends (p-1)
    times the passage of a single forward and a single backward.
    """
    schedule = graph.schedule
    pairs = tuple(graph.kinds[k] for k in _paired_kinds(graph, packed_s))
    if not pairs:
        return np.zeros(packed_s.shape[-1], dtype=np.int64)
    singles = tuple(((kinds[j],), (stages[j],)) for kinds, stages in pairs for j in range(2))
    turns = schedule.micro_batches * schedule.stages / schedule.pp
    estimates = []
    for entry in CATALOGUE:
        templates = [
            slot_template(kinds, tuple(structures[s] for s in stages), entry) for kinds, stages in pairs + singles
        ]
        matrix = price_slots(pairs + singles, templates, packed_s, None, piece_overhead_s).matrix
        passage = matrix[len(pairs) :, LANES, LANES].mean(axis=0) * 2
        estimates.append(turns * _pace_s(matrix[: len(pairs)]) + (schedule.pp - 1) * passage)
    return np.asarray(np.argmin(np.round(np.array(estimates), 12), axis=0), dtype=np.int64)


def _pace_s(pair_matrices: F64, rounds: int = 3) -> F64:
    """Seconds per paired slot when they follow one another on a rank and inputs are there in time, [N]."""
    clocks = np.zeros((LANES, pair_matrices.shape[-1]))
    before = clocks[0]
    for _ in range(rounds):
        before = clocks.max(axis=0)
        for matrix in pair_matrices[:, :LANES, :LANES]:
            clocks = (matrix + clocks[None]).max(axis=1)
    return np.asarray((clocks.max(axis=0) - before) / len(pair_matrices))


def _paired_kinds(graph: BlockGraph, packed_s: F64) -> list[int]:
    """Forward-backward pairs of the rank with the most time in them, at most four kinds."""
    by_rank: dict[int, set[int]] = {}
    for kind, rank in zip(graph.kind, graph.rank, strict=True):
        if graph.kinds[kind][0] == (F, B):
            by_rank.setdefault(int(rank), set()).add(int(kind))
    if not by_rank:
        return []
    stage_s = packed_s.sum(axis=(1, 2)).mean(axis=1)
    heaviest = max(by_rank, key=lambda r: max(sum(stage_s[s] for s in graph.kinds[k][1]) for k in by_rank[r]))
    return sorted(by_rank[heaviest])[:4]
