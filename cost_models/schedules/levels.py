"""Operations of fixed order on each rank, worked through for many strategies at once, level by level.

An operation starts when the one before it on its rank is done and when what its inputs' makers send has arrived; the
operations of a level wait for earlier levels only.

Axes: N strategies, O operations, K inputs of an operation.
"""

from __future__ import annotations

import numpy as np

from cost_models.errors import ConfigError
from cost_models.records import record
from cost_models.schedules.facts import F64, I64

LAID_OUT = 1 << 13  # costs that are put in order at a time


@record
class Levels:
    """Operations in the order of levels, and the rows of their times: when each ends (row 0: the start of the step) and, `rows`
    later, when what it sends arrives. Rows are used again.

    `starts` [levels + 1]: first operation of each level. `takes` [(K + 1) x O]: rows of the inputs, then of the end before,
    level by level. `cost`, `delay` [O]: rows of the costs, and of what lies between the end and the arrival.
    """

    starts: list[int]
    writes: list[int]  # first row of each level
    takes: I64
    cost: I64
    delay: I64
    inputs: int  # K
    width: int  # most operations of a level
    rows: int
    last: I64  # rows of the ranks' last operations


def levels_of(ranks: list[int], makers: I64, cost: I64, delay: I64) -> Levels:
    """Of operations listed rank by rank, `ranks` how many each has. `makers` [K, O]: of each input the operation that makes it,
    -1 where it is there from the start."""
    ends = np.cumsum(np.array(ranks, dtype=np.int64))
    order = _in_levels(ends - ranks, ends, makers)
    by_level, starts = np.concatenate(order), np.cumsum([0, *map(len, order)])
    before = np.arange(-1, len(cost) - 1)
    before[ends - ranks] = -1
    place = np.empty(len(cost) + 1, dtype=np.int64)
    place[by_level], place[-1] = np.arange(len(cost)), -1
    needed = np.concatenate([makers, before[None]])[:, by_level]
    rows, writes = _rows(starts, place[needed], place[ends - 1])
    row_of = np.zeros(len(cost) + 1, dtype=np.int64)
    row_of[by_level] = np.repeat(writes - starts[:-1], np.diff(starts)) + np.arange(len(cost))
    takes = row_of[needed]
    takes[:-1] += np.where(takes[:-1] > 0, rows, 0)
    return Levels(
        starts=starts.tolist(), writes=writes.tolist(), takes=_level_by_level(takes, starts), cost=cost[by_level],
        delay=delay[by_level], inputs=len(makers), width=max(map(len, order)), rows=rows, last=row_of[ends - 1],
    )  # fmt: skip


def _in_levels(starts: I64, ends: I64, makers: I64) -> list[I64]:
    """Every rank goes on by one operation a level where its inputs are there."""
    at, order, level = starts.copy(), [], 0
    made_in = np.full(int(ends[-1]) + 1, np.iinfo(np.int64).max)
    made_in[-1] = -1  # maker -1
    ranks = np.flatnonzero(at < ends)
    while len(ranks):
        next_up = at[ranks]
        ready = (made_in[makers[:, next_up]] < level).all(axis=0)
        done = next_up[ready]
        if not len(done):
            waiting = int((ends - at).sum())
            raise ConfigError("orders", f"{waiting} operations", "an order that does not wait in a circle")
        made_in[done] = level
        order.append(done)
        at[ranks[ready]] += 1
        ranks = ranks[at[ranks] < ends[ranks]]
        level += 1
    return order


def _rows(starts: I64, needed: I64, last: I64) -> tuple[int, I64]:
    """Rows that are enough, and the first row of each level: a ring that comes round after the last use of a row."""
    count, width = int(starts[-1]), int(np.diff(starts).max())
    used = np.arange(count + 1)
    np.maximum.at(used, needed.ravel(), np.tile(np.arange(count), len(needed)))
    used[last] = count
    size = min(count, int((used - np.arange(count + 1))[:-1].max()) + 2 * width)
    writes, at = [], 1
    for many in np.diff(starts).tolist():
        at = 1 if at + many > size + 1 else at
        writes.append(at)
        at += many
    return size + 1, np.array(writes)


def _level_by_level(rows: I64, starts: I64) -> I64:
    """[K, O] in the order of levels -> [K x O], the K rows of each level together."""
    level = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return rows.ravel()[np.argsort(np.tile(level, len(rows)), kind="stable")]


def end_s(levels: Levels, costs: F64, delays: F64) -> F64:
    """End of the last operation, [N]; `costs` and `delays` [rows, N]."""
    times = np.zeros((2 * levels.rows, costs.shape[1]))
    step = max(1, LAID_OUT // (costs.shape[1] * levels.width))
    for first in range(0, len(levels.writes), step):
        _work_through(levels, range(first, min(first + step, len(levels.writes))), costs, delays, times)
    return np.asarray(times.take(levels.last, axis=0).max(axis=0))


def _work_through(levels: Levels, some: range, costs: F64, delays: F64, times: F64) -> None:
    """`some` of the levels."""
    ends, arrivals, takes = times[: levels.rows], times[levels.rows :], levels.inputs + 1
    low, high = levels.starts[some.start], levels.starts[some.stop]
    cost, delay = costs.take(levels.cost[low:high], axis=0), delays.take(levels.delay[low:high], axis=0)
    to = low
    for level in some:
        at, to, write = to, levels.starts[level + 1], levels.writes[level]
        many = to - at
        ready = times.take(levels.takes[takes * at : takes * to], axis=0)
        start, end = ready[:many], ends[write : write + many]
        for row in range(many, takes * many, many):
            np.maximum(start, ready[row : row + many], out=start)
        np.add(start, cost[at - low : to - low], out=end)
        np.add(end, delay[at - low : to - low], out=arrivals[write : write + many])
