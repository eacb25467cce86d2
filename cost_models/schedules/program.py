"""A schedule's order worked through for many strategies at once.

Axes: N strategies, S virtual stages. An operation is (kind, stage, micro-batch); kinds F, B, I, W as in
`autodeploy.schedule.operations`. The same recurrence as the event simulator's on whole stages, so it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from cost_models.schedules.facts import F64, I64, PipelineCosts
from cost_models.schedules.levels import Levels, end_s, levels_of

F, B, I, W = 0, 1, 2, 3  # noqa: E741
Op = tuple[int, int, int]
Orders = Callable[[int, int, int, int], Sequence[Sequence[Op]]]  # (pp, vpp, micro-batches, group) -> operations by rank


@lru_cache(maxsize=256)
def compiled(orders: Orders, pp: int, vpp: int, micro_batches: int, group: int) -> Levels:
    """The levels of an order. Costs are those of F, B, I and W of each stage, delays none and a hop."""
    ranks = orders(pp, vpp, micro_batches, group)
    kind, stage, i = np.array([op for rank in ranks for op in rank]).T
    at, stages = np.arange(len(kind)), pp * vpp
    made = np.full((2, stages + 1, micro_batches), -1)  # forwards, one stage on: none before the first; backwards
    made[0, stage[kind == F] + 1, i[kind == F]] = at[kind == F]
    backward = (kind == B) | (kind == I)
    made[1, stage[backward], i[backward]] = at[backward]
    made[1, -1] = made[0, -1]  # the last stage's backward follows its forward
    maker = np.where(kind == F, made[0, stage, i], np.where(backward, made[1, stage + 1, i], -1))
    rank_of = np.repeat(np.arange(pp), [len(rank) for rank in ranks])
    hop = np.zeros(len(kind), dtype=np.int64)
    hop[maker[maker >= 0]] = (rank_of[maker] != rank_of)[maker >= 0]
    return levels_of([len(rank) for rank in ranks], maker[None], kind * stages + stage, hop)


def work_through(orders: Orders, c: PipelineCosts, micro_batches: int, group: int) -> F64:
    """End of the last operation, [N]; `micro_batches` and `group` replace those of `c`."""
    costs = np.concatenate([c.forward_s, c.input_s + c.weight_s, c.input_s, c.weight_s])
    delays = np.stack([np.zeros_like(c.p2p_s), c.p2p_s])
    return end_s(compiled(orders, c.pp, c.vpp, micro_batches, group), costs, delays)


def by_micro_batches(
    c: PipelineCosts, price: Callable[[PipelineCosts, int, int], F64], worked: I64 | None = None
) -> F64:
    """Applies `price` to the strategies of each (micro-batches, group) in turn, [N]; `worked`: of micro-batches fewer, as
    many as are worked through."""
    out = np.empty(len(c.p2p_s))
    for shape, at in by_shape(c.micro_batches if worked is None else worked, c.group):
        out[at] = price(part(c, at), *shape)
    return out


def by_shape(micro_batches: I64, group: I64) -> Iterator[tuple[tuple[int, int], I64]]:
    """Each (micro-batches, group) and the strategies that have it."""
    for shape in sorted(set(zip(micro_batches.tolist(), group.tolist(), strict=True))):
        yield shape, np.flatnonzero((micro_batches == shape[0]) & (group == shape[1]))


def part(c: PipelineCosts, at: I64 | slice) -> PipelineCosts:
    """The strategies at `at`."""
    if len(c.p2p_s[at]) == len(c.p2p_s):
        return c
    return PipelineCosts(
        forward_s=c.forward_s[:, at], input_s=c.input_s[:, at], weight_s=c.weight_s[:, at], p2p_s=c.p2p_s[at],
        micro_batches=c.micro_batches[at], group=c.group[at], pp=c.pp, vpp=c.vpp,
        lanes=c.lanes.take(at) if c.lanes else None,
    )  # fmt: skip
