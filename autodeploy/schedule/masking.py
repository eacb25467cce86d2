"""How much of the all-to-all time no compute hides.

exposed time of a rank = time in which its compute lane does nothing and an all-to-all of the rank runs (what waits for
one waits while it, or another in front of it, runs), less the wait that the same compute operation has when all-to-alls
take no time (the bubble that exists without them). masked share = 1 - exposed / all-to-all time, summed over ranks.
A rank that idles because another rank is held up by all-to-alls is not exposed by this definition; `added_idle_s`
counts that too: idle compute of all ranks with all-to-alls less without.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.blocks import BlockGraph
from autodeploy.schedule.request import EpMasking, NodeTimes
from autodeploy.schedule.segments import COMPUTE, IS_EP

F64 = NDArray[np.float64]


def ep_masking(graph: BlockGraph, with_ep: NodeTimes, without_ep: NodeTimes) -> EpMasking:
    """`without_ep`: the same events with all-to-alls of no length. Steady phase: slots of a forward and a backward."""
    scenarios = with_ep.start_s.shape[1]
    totals = np.zeros((4, scenarios))
    steady = graph.paired[with_ep.slot]
    is_ep = np.array(IS_EP)[with_ep.segment]
    length = with_ep.end_s - with_ep.start_s
    totals[0] = length[is_ep].sum(axis=0)
    totals[2] = length[is_ep & steady].sum(axis=0)
    for rank in range(graph.schedule.pp):
        mine = graph.rank[with_ep.slot] == rank
        compute = np.flatnonzero(mine & (with_ep.lane == COMPUTE))
        for n in range(scenarios):
            exposed, at = _exposed_s(with_ep, without_ep, compute, np.flatnonzero(mine & is_ep), n)
            totals[1, n] += exposed.sum()
            totals[3, n] += exposed[steady[at]].sum()
    added = graph.schedule.pp * (with_ep.end_s.max(axis=0) - without_ep.end_s.max(axis=0))
    return EpMasking(
        added_idle_s=added,
        ep_s=totals[0],
        exposed_s=totals[1],
        masked_frac=_masked(totals[0], totals[1]),
        steady_ep_s=totals[2],
        steady_exposed_s=totals[3],
        steady_masked_frac=_masked(totals[2], totals[3]),
    )


def _masked(ep_s: F64, exposed_s: F64) -> F64:
    return np.where(ep_s > 0, 1.0 - exposed_s / np.where(ep_s > 0, ep_s, 1.0), np.nan)


def _exposed_s(
    with_ep: NodeTimes, without_ep: NodeTimes, compute: NDArray[np.int64], ep: NDArray[np.int64], n: int
) -> tuple[F64, NDArray[np.int64]]:
    """Exposed seconds in front of each compute event of one rank, and the events, in time order."""
    order = compute[np.lexsort((with_ep.end_s[compute, n], with_ep.start_s[compute, n]))]
    before = np.concatenate([[0.0], with_ep.end_s[order[:-1], n]])
    gap = with_ep.start_s[order, n] - before
    gap_without = without_ep.start_s[order, n] - np.concatenate([[0.0], without_ep.end_s[order[:-1], n]])
    running = _covered_s(with_ep.start_s[ep, n], with_ep.end_s[ep, n], before, with_ep.start_s[order, n])
    return np.clip(np.minimum(running, gap - np.maximum(gap_without, 0.0)), 0.0, None), order


def _covered_s(start_s: F64, end_s: F64, from_s: F64, to_s: F64) -> F64:
    """Seconds of each window [from, to] in which at least one of the intervals runs."""
    if not len(start_s):
        return np.zeros_like(from_s)
    order = np.argsort(start_s)
    start, end = start_s[order], np.maximum.accumulate(end_s[order])
    opens = np.concatenate([[True], start[1:] > end[:-1]])
    first = np.flatnonzero(opens)
    union_start, union_end = start[first], end[np.concatenate([first[1:] - 1, [len(end) - 1]])]
    total = np.concatenate([[0.0], np.cumsum(union_end - union_start)])

    def covered_until(t: F64) -> F64:
        k = np.searchsorted(union_start, t, side="right")
        inside = np.where(k > 0, np.minimum(t, union_end[k - 1]) - union_start[k - 1], 0.0)
        return total[np.maximum(k - 1, 0)] + np.where(k > 0, inside, 0.0)

    return covered_until(to_s) - covered_until(from_s)
