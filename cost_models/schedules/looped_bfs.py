"""Looped BFS: all micro-batches of a chunk, chunk after chunk, then all backwards (Lamy-Poirier 2022, arXiv 2211.05953).

As torch.distributed.pipelining runs it (ScheduleLoopedBFS): backwards from the last micro-batch to the first.
"""

from __future__ import annotations

import numpy as np

from cost_models.schedules.facts import F64, Chunks, PipelineCosts, Schedule
from cost_models.schedules.program import B, F, Op


def looped_bfs_orders(pp: int, vpp: int, micro_batches: int, group: int) -> list[list[Op]]:
    """Operations of each rank."""
    ranks = []
    for rank in range(pp):
        stages = range(rank, pp * vpp, pp)
        order = [(F, stage, i) for stage in stages for i in range(micro_batches)]
        ranks.append(order + [(B, stage, i) for stage in reversed(stages) for i in reversed(range(micro_batches))])
    return ranks


def looped_bfs_s(c: PipelineCosts) -> F64:
    """Seconds [N]: two flow shops, forwards down the stages and backwards up them."""
    return _one_way_s(c, c.forward_s) + _one_way_s(c, (c.input_s + c.weight_s)[::-1])


def _one_way_s(c: PipelineCosts, cost: F64) -> F64:
    """Equal jobs through p machines v times, [N]; a machine starts a chunk when it is done with the one before.

    The first job of a chunk reaches machine r after the machines before it; the last ends when r has done all jobs since
    the first, or a job's time after it has left machine r-1.
    """
    free = [np.zeros_like(c.p2p_s)] * c.pp
    first = last = np.full_like(c.p2p_s, -np.inf)
    for stage in range(c.pp * c.vpp):
        rank, hop = stage % c.pp, c.p2p_s if stage else 0.0
        start = np.maximum(free[rank], first + hop)
        first = start + cost[stage]
        last = np.maximum(start + c.micro_batches * cost[stage], last + hop + cost[stage])
        free[rank] = last
    return np.asarray(last)


LOOPED_BFS = Schedule(
    name="looped-bfs",
    closed_form=looped_bfs_s,
    in_flight=lambda s: s.micro_batches * s.vpp * np.ones_like(s.rank),
    order="looped_bfs:looped_bfs",
    chunks=Chunks(2, None),
    launched_by=("torchtitan",),
    torch_class="LoopedBFS",
    aliases=("loopedbfs",),
)
