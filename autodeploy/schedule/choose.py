"""Templates for the slots of a graph, and the lane orders that are worth a replay."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.alike import first_best
from autodeploy.schedule.blocks import BlockGraph, SlotKind
from autodeploy.schedule.lane_orders import CATALOGUE, LaneOrder, ordered_streams
from autodeploy.schedule.operations import B, F
from autodeploy.schedule.replay import price_slots
from autodeploy.schedule.segments import COMPUTE, Structure, build_streams
from autodeploy.schedule.templates import LANES, Template, make_template

F64 = NDArray[np.float64]
TRIED = 3  # of the catalogue: the estimate does not always name the fastest


@lru_cache(maxsize=8192)
def slot_template(
    kinds: tuple[int, ...],
    structures: tuple[Structure, ...],
    entry: LaneOrder | None,
    joint: bool = False,
    early_gradient: bool = True,
    send_lane: int = COMPUTE,
) -> Template:
    """The template of a slot; without an entry nothing overlaps."""
    if entry is None:
        streams = build_streams(kinds, structures)
        return make_template(streams, tuple(range(len(streams.nodes))), blocking=True, joint=joint)
    streams, sequence = ordered_streams(kinds, structures, entry, early_gradient)
    return make_template(streams, sequence, blocking=False, joint=joint, send_lane=send_lane)


def slot_templates(
    graph: BlockGraph, structures: tuple[Structure, ...], entry: LaneOrder | None, pairs: str, send_lane: int
) -> list[Template]:
    """One per slot kind of the graph; `pairs` as in the record of the schedule."""
    joint, early = pairs == "joint", pairs == "early"
    return [
        slot_template(kinds, tuple(structures[s] for s in stages), entry, joint and len(kinds) == 2, early, send_lane)
        for kinds, stages in graph.kinds
    ]


def promising_lane_orders(
    graph: BlockGraph, structures: tuple[Structure, ...], packed_s: F64, piece_overhead_s: float
) -> NDArray[np.bool_]:
    """Entries of `CATALOGUE` worth a replay: the `TRIED` with the shortest estimated steps, [catalogue, N].

    Estimate: micro-batches x chunks x the pace of the paired slots of the rank with most work, and for the ends (p-1)
    times the passage of a single forward and a single backward.
    """
    chosen = np.zeros((len(CATALOGUE), packed_s.shape[-1]), dtype=bool)
    chosen[0] = True
    for pairs, rows in _paired_kinds(graph, packed_s):
        part = np.ascontiguousarray(packed_s[..., rows])
        estimates = [_estimate_s(graph, pairs, structures, part, entry, piece_overhead_s) for entry in CATALOGUE]
        chosen[:, rows] = _shortest(np.array(estimates))
    return chosen


def _shortest(estimates_s: F64) -> NDArray[np.bool_]:
    """The `TRIED` least of [K, N] for each scenario; equals but for rounding go in the order of the catalogue."""
    left, chosen = estimates_s.copy(), np.zeros(estimates_s.shape, dtype=bool)
    columns = np.arange(estimates_s.shape[1])
    for _ in range(min(TRIED, len(left))):
        best = first_best(left)
        chosen[best, columns] = True
        left[best, columns] = np.inf
    return chosen


def _estimate_s(
    graph: BlockGraph,
    pairs: tuple[SlotKind, ...],
    structures: tuple[Structure, ...],
    packed_s: F64,
    entry: LaneOrder,
    piece_overhead_s: float,
) -> F64:
    """Seconds of a step under one lane order, [N]."""
    schedule = graph.schedule
    slots = pairs + tuple(((kinds[j],), (stages[j],)) for kinds, stages in pairs for j in range(2))
    templates = [slot_template(kinds, tuple(structures[s] for s in stages), entry) for kinds, stages in slots]
    matrix = price_slots(slots, templates, packed_s, None, piece_overhead_s).matrix
    passage = matrix[len(pairs) :, LANES, LANES].mean(axis=0) * 2
    turns = schedule.micro_batches * schedule.stages / schedule.pp
    return np.asarray(turns * _pace_s(matrix[: len(pairs)]) + (schedule.pp - 1) * passage)


def _pace_s(pair_matrices: F64, rounds: int = 3) -> F64:
    """Seconds per paired slot when they follow one another on a rank and inputs are there in time, [N]."""
    clocks = np.zeros((LANES, pair_matrices.shape[-1]))
    before = clocks[0]
    for _ in range(rounds):
        before = clocks.max(axis=0)
        for matrix in pair_matrices[:, :LANES, :LANES]:
            clocks = (matrix + clocks[None]).max(axis=1)
    return np.asarray((clocks.max(axis=0) - before) / len(pair_matrices))


def _paired_kinds(graph: BlockGraph, packed_s: F64) -> list[tuple[tuple[SlotKind, ...], NDArray[np.int64]]]:
    """Forward-backward pairs of the rank with the most time in them, at most four kinds; with the scenarios that have
    their most time there. Empty where the schedule pairs nothing."""
    by_rank: dict[int, set[int]] = {}
    for kind, rank in zip(graph.kind, graph.rank, strict=True):
        if graph.kinds[kind][0] == (F, B):
            by_rank.setdefault(int(rank), set()).add(int(kind))
    if not by_rank:
        return []
    stage_s = packed_s.sum(axis=(1, 2))  # [S, N]
    most = [np.max([stage_s[list(graph.kinds[k][1])].sum(axis=0) for k in kinds], axis=0) for kinds in by_rank.values()]
    heaviest = first_best(-np.array(most))
    chosen = [tuple(graph.kinds[k] for k in sorted(kinds)[:4]) for kinds in by_rank.values()]
    return [(chosen[r], np.flatnonzero(heaviest == r)) for r in np.unique(heaviest)]
