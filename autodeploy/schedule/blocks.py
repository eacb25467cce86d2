"""The slots of a schedule as a static graph, levelled so that slots of one level replay together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.operations import F, Op, Schedule, ScheduleError, Slot, W

I64 = NDArray[np.int64]
SlotKind = tuple[tuple[int, ...], tuple[int, ...]]  # (kinds, stages) of its operations


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockGraph:
    """Slots in level order, numbered from 1; 0 stands for the start of the step. B slots.

    `previous[b]`: the slot before on the same rank. For each of two streams: `source[b, j]` the slot whose output is
    the input (0: none), `source_stream[b, j]` which of its outputs, `hop[b, j]` 1 + the boundary crossed (0: none).
    `level_at`: first slot of each level, and the end.
    """

    schedule: Schedule
    slots: tuple[Slot, ...]
    rank: I64
    place: I64  # position of the slot in its rank's order
    kinds: tuple[SlotKind, ...]
    kind: I64
    previous: I64
    source: I64
    source_stream: I64
    hop: I64
    level_at: tuple[int, ...]
    last_of_rank: I64
    first_of_rank: I64

    @property
    def paired(self) -> NDArray[np.bool_]:
        """Slots of a forward and a backward side by side, [B]."""
        return np.array([len(slot) == 2 and slot[0][0] != slot[1][0] for slot in self.slots])


def needs(op: Op, stages: int) -> Op | None:
    """The operation that makes the input of `op`: (F, ...) or (any backward, ...) given as (kind 1, ...)."""
    kind, stage, micro_batch = op
    if kind == W or (kind == F and stage == 0):
        return None
    if kind == F:
        return (F, stage - 1, micro_batch)
    if stage == stages - 1:
        return (F, stage, micro_batch)
    return (1, stage + 1, micro_batch)


@lru_cache(maxsize=64)
def build_graph(schedule: Schedule) -> BlockGraph:
    """Links slots to their inputs and sorts them by level; raises if the orders wait in a circle."""
    slots: list[Slot] = []
    rank: list[int] = []
    place: list[int] = []
    made_by: dict[Op, tuple[int, int]] = {}
    previous: list[int] = []
    for r, order in enumerate(schedule.orders):
        for at, slot in enumerate(order):
            previous.append(len(slots) - 1 if at else -1)
            for stream, (kind, stage, micro_batch) in enumerate(slot):
                if kind != W:
                    made_by[(F if kind == F else 1, stage, micro_batch)] = (len(slots), stream)
            slots.append(slot)
            rank.append(r)
            place.append(at)
    source, source_stream, hop = _inputs(schedule, slots, rank, made_by)
    level = _levels(schedule.name, previous, source)
    return _sorted_graph(schedule, slots, rank, place, previous, source, source_stream, hop, level)


def _inputs(
    schedule: Schedule, slots: list[Slot], rank: list[int], made_by: dict[Op, tuple[int, int]]
) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    source = [[-1, -1] for _ in slots]
    stream_of = [[0, 0] for _ in slots]
    hop = [[0, 0] for _ in slots]
    for at, slot in enumerate(slots):
        for stream, op in enumerate(slot):
            need = needs(op, schedule.stages)
            if need is None:
                continue
            made, made_stream = made_by[need]
            source[at][stream], stream_of[at][stream] = made, made_stream
            if rank[made] != rank[at]:
                hop[at][stream] = 1 + min(op[1], need[1])
    return source, stream_of, hop


def _levels(name: str, previous: list[int], source: list[list[int]]) -> list[int]:
    """Longest hop count from the start; Kahn's algorithm."""
    count = len(previous)
    followers: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for at in range(count):
        for before in {previous[at], *source[at]} - {-1}:
            followers[before].append(at)
            missing[at] += 1
    level = [0] * count
    ready = [at for at in range(count) if not missing[at]]
    done = 0
    while ready:
        at = ready.pop()
        done += 1
        for after in followers[at]:
            level[after] = max(level[after], level[at] + 1)
            missing[after] -= 1
            if not missing[after]:
                ready.append(after)
    if done < count:
        stuck = next(at for at in range(count) if missing[at])
        raise ScheduleError("schedule", name, f"free of deadlock; slot {stuck} waits in a circle")
    return level


def _sorted_graph(
    schedule: Schedule,
    slots: list[Slot],
    rank: list[int],
    place: list[int],
    previous: list[int],
    source: list[list[int]],
    source_stream: list[list[int]],
    hop: list[list[int]],
    level: list[int],
) -> BlockGraph:
    kind_index: dict[SlotKind, int] = {}
    kind = np.array(
        [kind_index.setdefault((tuple(o[0] for o in s), tuple(o[1] for o in s)), len(kind_index)) for s in slots]
    )
    levels = np.array(level)
    order = np.lexsort((kind, levels))
    number = np.zeros(len(slots) + 1, dtype=np.int64)  # index -1 (none) -> 0
    number[order] = np.arange(1, len(slots) + 1)
    number[-1] = 0
    ranks = np.array(rank)[order]
    widths = np.bincount(levels)
    last = np.array([number[np.flatnonzero(np.array(rank) == r)[-1]] for r in range(schedule.pp)])
    first = np.array([number[np.flatnonzero(np.array(rank) == r)[0]] for r in range(schedule.pp)])
    return BlockGraph(
        schedule=schedule,
        slots=tuple(slots[i] for i in order),
        rank=ranks,
        place=np.array(place)[order],
        kinds=tuple(kind_index),
        kind=kind[order],
        previous=number[np.array(previous)[order]],
        source=number[np.array(source)[order]],
        source_stream=np.array(source_stream)[order],
        hop=np.array(hop)[order],
        level_at=tuple(int(x) for x in np.concatenate([[1], 1 + np.cumsum(widths)])),
        last_of_rank=last,
        first_of_rank=first,
    )
