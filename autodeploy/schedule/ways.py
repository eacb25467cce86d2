"""Every way that a step may run (lane order, pairs at the ends) replayed for many requests at once.

Axes: N scenarios of a request, W ways of it, P ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.alike import first_best
from autodeploy.schedule.choose import promising_lane_orders
from autodeploy.schedule.lane_orders import CATALOGUE
from autodeploy.schedule.outcome import step_s
from autodeploy.schedule.pricing import SlotCosts, transfer_matrices
from autodeploy.schedule.replay import Run, replay
from autodeploy.schedule.templates import LANES, Template
from autodeploy.schedule.work import Work, pair_scale
from cost_models.records import record

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
CELLS = 2**18  # of states replayed at a time: slots x columns


@record(eq=False)
class Chosen:
    """Scenarios `rows` of a request that are fastest one way: `entry` of the catalogue (None: nothing overlaps), and which
    of the ends. When each rank ends its last slot, and when its first has its input, [n, P] each."""

    rows: I64
    entry: str | None
    ends: int
    step_s: F64
    end_s: F64
    start_s: F64


@record(eq=False)
class _Job:
    """Scenarios `rows` of a request that try the same lane orders."""

    at: int
    work: Work
    rows: I64
    entries: tuple[str | None, ...]

    @property
    def cells(self) -> int:
        return sum(len(graph) for graph in self.work.graphs) * len(self.entries) * len(self.rows)


def fastest(works: Sequence[Work]) -> list[list[Chosen]]:
    """The fastest way of every scenario of every request; parts of a request in order of the ways."""
    alike: dict[tuple[object, ...], list[_Job]] = defaultdict(list)
    for job in _jobs(works):
        request = job.work.request
        scale = id(job.work) if np.any(request.pair_saving_frac) else 0
        alike[len(job.rows), len(job.entries), job.entries[0] is None, request.piece_overhead_s, scale].append(job)
    chosen: list[list[Chosen]] = [[] for _ in works]
    for jobs in alike.values():
        for some in _chunks(jobs):
            for job, found in zip(some, _replayed(some), strict=True):
                chosen[job.at] += found
    return chosen


def _jobs(works: Sequence[Work]) -> list[_Job]:
    choosing = _choosing(works)
    tried = dict(zip(choosing, promising_lane_orders([works[at] for at in choosing]), strict=True))
    jobs = []
    for at, work in enumerate(works):
        every = np.arange(work.request.scenarios)
        if not work.request.overlaps_lanes:
            jobs.append(_Job(at=at, work=work, rows=every, entries=(None,)))
        elif work.request.lane_order is not None:
            jobs.append(_Job(at=at, work=work, rows=every, entries=(work.request.lane_order,)))
        else:
            same, index = np.unique(tried[at], axis=1, return_inverse=True)
            for k in range(same.shape[1]):
                names = _different(work, [CATALOGUE[e].name for e in np.flatnonzero(same[:, k])])
                jobs.append(_Job(at=at, work=work, rows=np.flatnonzero(index.reshape(-1) == k), entries=names))
    return jobs


def _different(work: Work, names: list[str]) -> tuple[str, ...]:
    """The first of those that order all slots of a request alike."""
    found: dict[tuple[Template, ...], str] = {}
    for name in names:
        found.setdefault(tuple(work.templates(name)), name)
    return tuple(found.values())


def _choosing(works: Sequence[Work]) -> list[int]:
    requests = [work.request for work in works]
    return [at for at, request in enumerate(requests) if request.overlaps_lanes and request.lane_order is None]


def _chunks(jobs: list[_Job]) -> list[list[_Job]]:
    """Jobs that replay together: as many as fit the cache, alike in length."""
    parts: list[list[_Job]] = []
    room = 0
    for job in sorted(jobs, key=lambda job: max(len(graph.level_at) for graph in job.work.graphs)):
        if room < job.cells:
            parts.append([])
            room = CELLS
        parts[-1].append(job)
        room -= job.cells
    return parts


def _replayed(jobs: list[_Job]) -> list[list[Chosen]]:
    """The fastest way of each scenario of some jobs of as many scenarios and entries."""
    templates = [
        template for k in range(len(jobs[0].entries)) for job in jobs for template in job.work.templates(job.entries[k])
    ]
    inputs = sorted(frozenset().union(*(template.uses for template in templates)))
    matrix = _matrices(jobs, templates, inputs)
    first = np.cumsum([0, *(len(job.work.slots) for job in jobs)])
    runs = [
        Run(graph=graph, slot=slot_of + at, hops_s=_hops_s(job))
        for job, at in zip(jobs, first, strict=False)
        for graph, slot_of in zip(job.work.graphs, job.work.slot_of, strict=True)
    ]
    state, rows = replay(runs, matrix, inputs)
    times, lanes = [], sum(j < LANES for j in inputs)
    for run, own in zip(runs, rows, strict=True):
        times.append(_rank_times(run, state, own, lanes))
    found, at = [], 0
    for job in jobs:
        found.append(_fastest_of(job, times[at : at + len(job.work.graphs)]))
        at += len(job.work.graphs)
    return found


def _matrices(jobs: list[_Job], templates: list[Template], inputs: Sequence[int]) -> F64:
    """[D, D, slots of all jobs, entries x N]."""
    cells, at, first = [], [], 0
    for job in jobs:
        cells.append(job.work.stages.cells[:, :, job.rows].reshape(-1, len(job.rows)))
        at.append(job.work.cells_of_slots(first))
        first += len(cells[-1])
    request, entries = jobs[0].work.request, len(jobs[0].entries)
    scale = pair_scale(request)
    costs = SlotCosts(
        seconds=np.concatenate(cells),
        at=np.tile(np.concatenate(at), (entries, 1)),
        piece_overhead_s=request.piece_overhead_s,
        pair_scale=None if scale is None else scale[jobs[0].rows],
    )
    slots, matrix = len(templates) // entries, transfer_matrices(templates, costs, inputs)
    by_entry = matrix.reshape(len(inputs), len(inputs), entries, slots, -1)
    return np.moveaxis(by_entry, 2, 3).reshape(len(inputs), len(inputs), slots, -1)


def _hops_s(job: _Job) -> F64 | None:
    hops = job.work.hops_s
    return None if hops is None else np.tile(hops[:, job.rows], (1, len(job.entries)))


def _rank_times(run: Run, state: F64, rows: I64, lanes: int) -> tuple[F64, F64]:
    """When each rank ends its last slot, and when its first has its input, [P, columns]."""
    graph = run.graph
    end = state[:lanes, rows[graph.last_of_rank]].max(axis=0)
    first = graph.first_of_rank - 1
    start = state[lanes + graph.source_stream[first, 0], rows[graph.source[first, 0]]]
    return end, start if run.hops_s is None else start + run.hops_s[graph.hop[first, 0]]


def _fastest_of(job: _Job, times: list[tuple[F64, F64]]) -> list[Chosen]:
    """Of one job, from the times of the ranks under each of the ends."""
    shape = (-1, len(job.entries), len(job.rows))
    by_ends = [[np.moveaxis(each.reshape(shape), 0, 2) for each in pair] for pair in times]  # [entries, n, P]
    seconds = np.stack([step_s(job.work.request, job.rows, *pair) for pair in by_ends], axis=1)
    way = first_best(seconds.reshape(-1, len(job.rows)))
    chosen = []
    for k in sorted(set(way.tolist())):
        own, (entry, ends) = np.flatnonzero(way == k), divmod(k, len(times))
        end, start = (each[entry, own] for each in by_ends[ends])
        chosen.append(
            Chosen(
                rows=job.rows[own],
                entry=job.entries[entry],
                ends=ends,
                step_s=seconds[entry, ends, own],
                end_s=end,
                start_s=start,
            )
        )
    return chosen
