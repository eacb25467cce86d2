"""The slots of a schedule as a static graph, levelled so that slots of one level replay together."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.operations import I32, I64, B, F, Schedule, ScheduleError, W
from cost_models.records import record

SlotKind = tuple[tuple[int, ...], tuple[int, ...]]  # (kinds, stages) of its operations
Bool = NDArray[np.bool_]


@record(eq=False)
class BlockGraph:
    """Slots in level order, numbered from 1; 0 stands for the start of the step. B slots.

    `ops` as in `Schedule`. `previous[b]`: the slot before on the same rank. For each of two streams: `source[b, j]` the
    slot whose output is the input (0: none), `source_stream[b, j]` which of its outputs, `hop[b, j]` 1 + the boundary
    crossed (0: none). `level_at`: first slot of each level, and the end.
    """

    schedule: Schedule
    ops: I32
    rank: I32
    kinds: tuple[SlotKind, ...]
    kind: I32
    previous: I32
    source: I32
    source_stream: I32
    hop: I32
    level_at: I64
    last_of_rank: I64
    first_of_rank: I64

    def __len__(self) -> int:
        return len(self.ops)

    @property
    def paired(self) -> Bool:
        """Slots of a forward and a backward side by side, [B]."""
        first, second = self.ops[:, 0, 0], self.ops[:, 1, 0]
        return np.asarray((second >= 0) & (first != second))

    @cached_property
    def _pairs(self) -> list[list[SlotKind]]:
        """The kinds of pairs of a forward and a full backward of each rank that has some, the first to have one first."""
        chosen = (self.ops[:, 0, 0] == F) & (self.ops[:, 1, 0] == B)
        ranks, first = np.unique(self.rank[chosen], return_index=True)
        by_rank: dict[int, list[SlotKind]] = {rank: [] for rank in ranks[np.argsort(first)].tolist()}
        found = set((self.rank[chosen].astype(np.int64) * len(self.kinds) + self.kind[chosen]).tolist())
        for code in sorted(found):
            by_rank[code // len(self.kinds)].append(self.kinds[code % len(self.kinds)])
        return list(by_rank.values())

    @property
    def pairs_of_rank(self) -> list[list[SlotKind]]:
        """At most four of them."""
        return [kinds[:4] for kinds in self._pairs]

    @cached_property
    def pair_stages(self) -> I64:
        """Stages of all of them, [ranks that pair, pairs, 2]; the first pair once more where there are fewer."""
        most = max(len(kinds) for kinds in self._pairs)
        return np.array([[stages for _, stages in kinds + kinds[:1] * (most - len(kinds))] for kinds in self._pairs])

    @cached_property
    def kinds_of_rank(self) -> I64:
        """How many slots of each kind a rank runs, [P, kinds]."""
        ranks, kinds = self.schedule.pp, len(self.kinds)
        return np.bincount(self.rank.astype(np.int64) * kinds + self.kind, minlength=ranks * kinds).reshape(
            ranks, kinds
        )


def build_graph(schedule: Schedule) -> BlockGraph:
    """Links slots to their inputs and sorts them by level; raises if the orders wait in a circle."""
    ops, first = schedule.ops, schedule.first
    count = len(ops)
    rank = np.repeat(np.arange(schedule.pp), np.diff(first))
    source, source_stream, hop = _inputs(schedule, rank)
    level = _levels(schedule.name, first, source)
    kinds, kind = _kinds(ops)
    order = np.lexsort((kind, level))
    number = np.zeros(count + 1, dtype=np.int32)  # index -1 (none) -> 0
    number[order] = np.arange(1, count + 1)
    number[-1] = 0
    previous = np.arange(-1, count - 1)
    previous[first[:-1]] = -1
    return BlockGraph(
        schedule=schedule,
        ops=ops[order],
        rank=rank[order].astype(np.int32),
        kinds=kinds,
        kind=kind[order].astype(np.int32),
        previous=number[previous[order]],
        source=number[source[order]],
        source_stream=source_stream[order].astype(np.int32),
        hop=hop[order].astype(np.int32),
        level_at=np.concatenate([[1], 1 + np.cumsum(np.bincount(level))]),
        last_of_rank=number[first[1:] - 1].astype(np.int64),
        first_of_rank=number[first[:-1]].astype(np.int64),
    )


def _inputs(schedule: Schedule, rank: I64) -> tuple[I64, I64, I64]:
    """Slot whose output each operation needs (-1: none), which of its outputs, and 1 + the boundary crossed; [B, 2] each.

    F needs F of the stage before, a backward that of the stage after; the first backward needs the last forward.
    """
    kind, stage, micro_batch = np.moveaxis(schedule.ops, 2, 0)
    last, backward = schedule.stages - 1, (kind > F).astype(np.int64)
    slot, stream = np.nonzero((kind >= 0) & (kind != W))
    made_by = np.full((2, schedule.stages, schedule.micro_batches), -1)
    at = slot, stream
    made_by[backward[at], stage[at], micro_batch[at]] = 2 * slot + stream
    turns = (kind > F) & (stage == last)
    needs = np.where(turns, stage, np.where(backward == 1, stage + 1, stage - 1))
    has = (kind >= 0) & (kind != W) & (needs >= 0)
    made = np.where(has, made_by[np.where(turns, 0, backward), np.where(has, needs, 0), micro_batch], -1)
    if (has & (made < 0)).any():
        raise ScheduleError("schedule", schedule.name, "complete: an operation needs one that no rank runs")
    source = made >> 1  # -1 stays -1
    crosses = has & (rank[source] != rank[:, None])
    return source, np.where(has, made & 1, 0), np.where(crosses, 1 + np.minimum(stage, needs), 0)


def _levels(name: str, first: I64, source: I64) -> I64:
    """Longest hop count from the start: all ranks go in step, each runs its next slot once the inputs are there."""
    count = len(source)
    level = np.full(count + 2, -1)  # `count`: the end of a rank; index -1: no input
    done = np.zeros(count + 2, dtype=bool)
    done[-1] = True
    after = np.arange(1, count + 1)
    after[first[1:] - 1] = count
    inputs = np.concatenate([source, [[count, count]]])
    one, two = np.ascontiguousarray(inputs.T)
    at, now = first[:-1].copy(), 0
    while True:
        ready = np.flatnonzero(done[one[at]] & done[two[at]])
        if not len(ready):
            break
        going = at[ready]
        level[going] = now
        done[going] = True
        at[ready] = after[going]
        now += 1
    stuck = np.flatnonzero(level[:count] < 0)
    if len(stuck):
        raise ScheduleError("schedule", name, f"free of deadlock; slot {stuck[0]} waits in a circle")
    return level[:count]


def _kinds(ops: I32) -> tuple[tuple[SlotKind, ...], I64]:
    """Distinct (kinds, stages) of slots in order of first appearance, and which of them each slot is."""
    kind, stage = ops[:, :, 0].astype(np.int64) + 1, ops[:, :, 1].astype(np.int64) + 1
    stages = int(stage.max()) + 1
    code = ((kind[:, 0] * 5 + kind[:, 1]) * stages + stage[:, 0]) * stages + stage[:, 1]
    _, found, index = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(found)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    kinds = []
    for one, two in ops[found[order]].tolist():
        slot = (one,) if two[0] < 0 else (one, two)
        kinds.append((tuple(op[0] for op in slot), tuple(op[1] for op in slot)))
    return tuple(kinds), place[index.reshape(-1)]
