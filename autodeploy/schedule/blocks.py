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
    rank = np.repeat(np.arange(schedule.pp, dtype=np.int32), np.diff(first))
    source, source_stream, hop = _inputs(schedule, rank)
    level = _levels(schedule.name, first, source)
    kinds, kind = _kinds(ops)
    order = _sorted_by(kind, np.arange(count))
    order = _sorted_by(level, order)
    number = np.zeros(count + 1, dtype=np.int32)  # index -1 (none) -> 0
    number[order] = np.arange(1, count + 1)
    previous = np.arange(-1, count - 1)
    previous[first[:-1]] = -1
    return BlockGraph(
        schedule=schedule,
        ops=ops[order],
        rank=rank[order],
        kinds=kinds,
        kind=kind[order],
        previous=number[previous[order]],
        source=number[source[order]],
        source_stream=source_stream[order],
        hop=hop[order],
        level_at=np.concatenate([[1], 1 + np.cumsum(np.bincount(level))]),
        last_of_rank=number[first[1:] - 1].astype(np.int64),
        first_of_rank=number[first[:-1]].astype(np.int64),
    )


def _sorted_by(key: I32, order: I64) -> I64:
    """`order` by `key`, equals as they were."""
    own = key[order]
    small = own.astype(np.int16) if own.max(initial=0) < 2**15 else own  # sorted by radix
    return order[np.argsort(small, kind="stable")]


def _inputs(schedule: Schedule, rank: I32) -> tuple[I32, I32, I32]:
    """Slot whose output each operation needs (-1: none), which of its outputs, and 1 + the boundary crossed; [B, 2] each."""
    made_by = np.full((2, schedule.stages, schedule.micro_batches), -1, dtype=np.int32)  # 2 x slot + stream
    for stream in range(2):
        kind, stage, micro_batch = schedule.ops[:, stream].T
        slot = np.flatnonzero((kind >= 0) & (kind != W))
        made_by[(kind[slot] > F).astype(np.int8), stage[slot], micro_batch[slot]] = 2 * slot + stream
    source = np.full((len(rank), 2), -1, dtype=np.int32)
    source_stream, hop = np.zeros_like(source), np.zeros_like(source)
    for stream in range(2):
        slot, needs, direction = _needs(schedule, stream)
        if not len(slot):
            continue
        made = made_by[direction, needs, schedule.ops[slot, stream, 2]]
        if (made < 0).any():
            raise ScheduleError("schedule", schedule.name, "complete: an operation needs one that no rank runs")
        source[slot, stream], source_stream[slot, stream] = made >> 1, made & 1
        crosses = rank[made >> 1] != rank[slot]
        hop[slot, stream] = np.where(crosses, 1 + np.minimum(schedule.ops[slot, stream, 1], needs), 0)
    return source, source_stream, hop


def _needs(schedule: Schedule, stream: int) -> tuple[I64, I32, I32]:
    """Slots whose operation of a stream needs another one: the stage of that, and 1 if it is a backward.

    F needs F of the stage before, a backward that of the stage after; the first backward needs the last forward.
    """
    kind, stage, _ = schedule.ops[:, stream].T
    slot = np.flatnonzero((kind >= 0) & (kind != W) & ((kind > F) | (stage > 0)))
    backward, own = kind[slot] > F, stage[slot]
    turns = backward & (own == schedule.stages - 1)
    needs = np.where(turns, own, np.where(backward, own + 1, own - 1))
    return slot, needs, (backward & ~turns).astype(np.int32)


def _levels(name: str, first: I64, source: I32) -> I32:
    """Longest hop count from the start: all ranks go in step, each runs its next slot once the inputs are there."""
    count = len(source)
    done = np.zeros(count + 2, dtype=bool)  # `count`: the end of a rank; index -1: no input
    done[-1] = True
    level = np.full(count, -1, dtype=np.int32)
    after = np.arange(1, count + 1)
    after[first[1:] - 1] = count
    streams = [np.append(column, count) for column in source.T.astype(np.int64) if (column >= 0).any()]
    at, now = first[:-1].copy(), 0
    while True:
        ready = at < count
        for inputs in streams:
            ready &= done[inputs[at]]
        going = at[ready]
        if not len(going):
            break
        level[going] = now
        done[going] = True
        at[ready] = after[going]
        now += 1
    stuck = np.flatnonzero(level < 0)
    if len(stuck):
        raise ScheduleError("schedule", name, f"free of deadlock; slot {stuck[0]} waits in a circle")
    return level


def _kinds(ops: I32) -> tuple[tuple[SlotKind, ...], I32]:
    """Distinct (kinds, stages) of slots in order of first appearance, and which of them each slot is."""
    count = len(ops)
    stages = int(ops[:, :, 1].max()) + 1
    one, two = (ops[:, j, 0] * stages + ops[:, j, 1] for j in range(2))
    code = one.astype(np.int64)
    if (two >= 0).any():
        code = code * (4 * stages + 1) + np.where(ops[:, 1, 0] < 0, 0, two + 1)
    first = np.full(int(code.max()) + 1, count)
    first[code[::-1]] = np.arange(count)[::-1]  # of several the last one stays: the first slot
    found = np.sort(first[first < count])
    place = np.empty_like(first, dtype=np.int32)
    place[code[found]] = np.arange(len(found))
    kinds = []
    for one_op, two_op in ops[found].tolist():
        slot = (one_op,) if two_op[0] < 0 else (one_op, two_op)
        kinds.append((tuple(op[0] for op in slot), tuple(op[1] for op in slot)))
    return tuple(kinds), place[code]
