"""A fixed order of operations worked through for many strategies at once, level by level.

Axes: N strategies, S virtual stages, O operations. An operation is (kind, stage, micro-batch); kinds F, B, I, W as in
`autodeploy.schedule.operations`. The same recurrence as the event simulator's on whole stages, so it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cost_models.errors import ConfigError
from cost_models.schedules.facts import F64, I64, PipelineCosts

F, B, I, W = 0, 1, 2, 3  # noqa: E741
Op = tuple[int, int, int]
Orders = Callable[[int, int, int, int], Sequence[Sequence[Op]]]  # (pp, vpp, micro-batches, group) -> operations by rank


@dataclass(frozen=True, slots=True)
class Level:
    """Operations that wait for earlier levels only: rows of the state (0: the start of the step), rows of the costs."""

    at: slice
    before: I64  # the operation before on the same rank
    input: I64
    hop: I64  # 1 where the input comes from another rank
    cost: I64


@lru_cache(maxsize=256)
def compiled(orders: Orders, pp: int, vpp: int, micro_batches: int, group: int) -> tuple[Level, ...]:
    """The levels of an order."""
    ranks = orders(pp, vpp, micro_batches, group)
    stages = pp * vpp
    ops = [op for rank in ranks for op in rank]
    made_by = {(F if kind == F else B, stage, i): at for at, (kind, stage, i) in enumerate(ops) if kind != W}
    rank_of = np.repeat(np.arange(pp), [len(rank) for rank in ranks])
    before: list[int] = []
    source: list[int] = []
    for rank in ranks:
        for position, (kind, stage, i) in enumerate(rank):
            at = len(before)
            before.append(at - 1 if position else -1)
            if kind == W or (kind == F and stage == 0):
                source.append(-1)
            elif kind == F:
                source.append(made_by[F, stage - 1, i])
            else:
                source.append(made_by[(F, stage, i) if stage == stages - 1 else (B, stage + 1, i)])
    level = _levels(before, source)
    row = np.zeros(len(ops) + 1, dtype=np.int64)  # index -1 (none) -> 0
    by_level = np.argsort(level, kind="stable")
    row[by_level] = np.arange(1, len(ops) + 1)
    row[-1] = 0
    cost = np.array([kind * stages + stage for kind, stage, _ in ops])
    before_at, source_at = np.array(before), np.array(source)
    hop = ((source_at >= 0) & (rank_of[source_at] != rank_of)).astype(np.int64)
    edges = np.searchsorted(level[by_level], np.arange(level.max() + 2))
    return tuple(
        Level(slice(int(a) + 1, int(b) + 1), row[before_at[at]], row[source_at[at]], hop[at], cost[at])
        for a, b in zip(edges[:-1], edges[1:], strict=True)
        for at in (by_level[a:b],)
    )


def _levels(before: list[int], source: list[int]) -> I64:
    """Longest way from the start, counted in operations; Kahn's algorithm."""
    followers: list[list[int]] = [[] for _ in before]
    missing = [0] * len(before)
    for at, needs in enumerate(zip(before, source, strict=True)):
        for need in needs:
            if need >= 0:
                followers[need].append(at)
                missing[at] += 1
    level = [0] * len(before)
    ready = [at for at, count in enumerate(missing) if not count]
    for at in ready:  # grows as it is read
        for after in followers[at]:
            level[after] = max(level[after], level[at] + 1)
            missing[after] -= 1
            if not missing[after]:
                ready.append(after)
    if len(ready) < len(before):
        raise ConfigError("orders", f"{len(before) - len(ready)} operations", "an order that does not wait in a circle")
    return np.array(level)


def work_through(orders: Orders, c: PipelineCosts, micro_batches: int, group: int) -> F64:
    """End of the last operation, [N]; `micro_batches` and `group` replace those of `c`."""
    levels = compiled(orders, c.pp, c.vpp, micro_batches, group)
    costs = np.concatenate([c.forward_s, c.input_s + c.weight_s, c.input_s, c.weight_s])
    hops = np.stack([np.zeros_like(c.p2p_s), c.p2p_s])
    end = np.zeros((levels[-1].at.stop, costs.shape[1]))
    for level in levels:
        ready = end[level.input]
        ready += hops[level.hop]
        np.maximum(ready, end[level.before], out=ready)
        np.add(ready, costs[level.cost], out=end[level.at])
    return np.asarray(end.max(axis=0))


def by_micro_batches(
    c: PipelineCosts, price: Callable[[PipelineCosts, int, int], F64], worked: I64 | None = None
) -> F64:
    """Applies `price` to the strategies of each (micro-batches, group) in turn, [N]; `worked`: of micro-batches fewer, as
    many as are worked through."""
    m, g = c.micro_batches if worked is None else worked, c.group
    out = np.empty(len(m))
    for shape in sorted(set(zip(m.tolist(), g.tolist(), strict=True))):
        at = np.flatnonzero((m == shape[0]) & (g == shape[1]))
        out[at] = price(part(c, at), *shape)
    return out


def part(c: PipelineCosts, at: I64) -> PipelineCosts:
    """The strategies at `at`."""
    if len(at) == len(c.p2p_s):
        return c
    return PipelineCosts(
        forward_s=c.forward_s[:, at], input_s=c.input_s[:, at], weight_s=c.weight_s[:, at], p2p_s=c.p2p_s[at],
        micro_batches=c.micro_batches[at], group=c.group[at], pp=c.pp, vpp=c.vpp,
        lanes=c.lanes.take(at) if c.lanes else None,
    )  # fmt: skip
