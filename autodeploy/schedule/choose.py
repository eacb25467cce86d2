"""The lane orders that are worth a replay, estimated for all entries of the catalogue and many requests at once.

Axes: N scenarios of each, J jobs (scenarios of a request whose most work is on the same rank), K entries of the catalogue,
X pairs of that rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.alike import first_best
from autodeploy.schedule.blocks import SlotKind
from autodeploy.schedule.graphs import graph_of
from autodeploy.schedule.lane_orders import CATALOGUE
from autodeploy.schedule.pricing import SlotCosts, transfer_matrices
from autodeploy.schedule.segments import Structure
from autodeploy.schedule.slots import slot_template
from autodeploy.schedule.templates import LANES, Template
from autodeploy.schedule.work import Work
from cost_models.records import record

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Bool = NDArray[np.bool_]
TRIED = 3  # of the catalogue: the estimate does not always name the fastest
READ = (0, 1, 2, LANES)  # inputs that the estimate asks for: lanes, and the arrival of a stream alone
ROUNDS = 3  # of the pairs until they keep their pace


@record(eq=False)
class _Job:
    """Scenarios `rows` of a request, and the slots that decide: pairs, then each half of a pair alone."""

    work: int
    rows: I64
    slots: tuple[SlotKind, ...]
    turns: float
    ranks: int


def promising_lane_orders(works: Sequence[Work]) -> list[Bool]:
    """Entries of `CATALOGUE` worth a replay: the `TRIED` with the shortest estimated steps, [catalogue, N] each.

    Estimate: micro-batches x chunks x the pace of the paired slots of the rank with most work, and for the ends (p-1)
    times the passage of a single forward and a single backward.
    """
    chosen = [np.zeros((len(CATALOGUE), work.request.scenarios), dtype=bool) for work in works]
    alike: dict[tuple[int, ...], list[_Job]] = defaultdict(list)
    for at, work in enumerate(works):
        chosen[at][0] = True
        for job in _jobs(at, work):
            alike[len(job.rows), len(job.slots), round(1e9 * work.request.piece_overhead_s)].append(job)
    for jobs in alike.values():
        shortest = _shortest(_estimates_s(works, jobs))
        for job, found in zip(jobs, np.split(shortest, len(jobs), axis=1), strict=True):
            chosen[job.work][:, job.rows] = found
    return chosen


def _jobs(at: int, work: Work) -> list[_Job]:
    """Empty where the schedule pairs nothing."""
    graph, schedule = graph_of(work.request, "none"), work.request
    ranks = graph.pairs_of_rank
    if not ranks:
        return []
    stage_s = work.stages.cells.sum(axis=1)[work.stages.of]  # [S, N]
    heaviest = first_best(-stage_s[graph.pair_stages].sum(axis=2).max(axis=1))
    jobs = []
    for rank in sorted(set(heaviest.tolist())):
        pairs = tuple(work.stages.slots(ranks[rank]))
        halves = tuple(((kinds[j],), (stages[j],)) for kinds, stages in pairs for j in range(2))
        turns = schedule.micro_batches * schedule.stages / schedule.pp
        rows = np.flatnonzero(heaviest == rank)
        jobs.append(_Job(work=at, rows=rows, slots=pairs + halves, turns=turns, ranks=schedule.pp))
    return jobs


def _estimates_s(works: Sequence[Work], jobs: list[_Job]) -> F64:
    """Seconds of a step under each lane order, [K, J x N]."""
    matrix = _priced(works, jobs)
    pairs = len(jobs[0].slots) // 3
    passage = matrix[LANES, LANES, :, :, pairs:].mean(axis=2) * 2
    clocks = np.zeros((LANES, *passage.shape))
    before = clocks[0]
    for _ in range(ROUNDS):
        before = clocks.max(axis=0)
        for pair in range(pairs):
            clocks = (matrix[:LANES, :LANES, :, :, pair] + clocks[:, None]).max(axis=0)
    pace = (clocks.max(axis=0) - before) / pairs
    turns, ranks = (np.array([getattr(job, name) for job in jobs])[:, None] for name in ("turns", "ranks"))
    return np.asarray(turns * pace + (ranks - 1) * passage).reshape(len(CATALOGUE), -1)


def _priced(works: Sequence[Work], jobs: list[_Job]) -> F64:
    """Transfer matrices of the slots of each job under each lane order, [D in, D out, K, J, slots, N]."""
    templates: list[Template] = []
    cells, first_cell, place = [], 0, []
    distinct: list[tuple[tuple[int, ...], tuple[Structure, ...], list[int]]] = []
    for job in jobs:
        stages = works[job.work].stages
        index: dict[SlotKind, int] = {}
        place.append([len(distinct) + index.setdefault(slot, len(index)) for slot in job.slots])
        layer_cells = stages.cells.shape[1]
        for kinds, own in index:
            distinct.append(
                (kinds, tuple(stages.structures[s] for s in own), [first_cell + s * layer_cells for s in own])
            )
        own_cells = stages.cells[:, :, job.rows]
        cells.append(own_cells.reshape(-1, len(job.rows)))
        first_cell += len(cells[-1])
    priced: dict[tuple[int, int], int] = {}  # what several entries order alike once
    at, which = [], []
    for entry in CATALOGUE:
        for slot, (kinds, structures, cell) in enumerate(distinct):
            template = slot_template(kinds, structures, entry.name)
            which.append(priced.setdefault((id(template), slot), len(priced)))
            if len(priced) > len(templates):
                templates.append(template)
                at.append((*cell, cell[-1])[:2])
    overhead_s = works[jobs[0].work].request.piece_overhead_s
    costs = SlotCosts(seconds=np.concatenate(cells), at=np.array(at), piece_overhead_s=overhead_s)
    matrix = transfer_matrices(templates, costs, READ)
    return matrix[:, :, np.array(which).reshape(len(CATALOGUE), -1)[:, np.array(place)]]


def _shortest(estimates_s: F64) -> Bool:
    """The `TRIED` least of [K, N] for each scenario; equals but for rounding go in the order of the catalogue."""
    left, chosen = estimates_s.copy(), np.zeros(estimates_s.shape, dtype=bool)
    columns = np.arange(estimates_s.shape[1])
    for _ in range(min(TRIED, len(left))):
        best = first_best(left)
        chosen[best, columns] = True
        left[best, columns] = np.inf
    return chosen
