"""Places operations one at a time on ranks, as the automatic zero-bubble schedules do: clocks, waits, memory held."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autodeploy.schedule.operations import F, I, Op, OrderCosts, PipelineShape, Schedule, W, of_arrays

LONGER = 1.0 + 1e-9  # a pass that is longer by this is not as short but for rounding


class TooLong(Exception):
    """The pass can no longer beat what was found before."""


@dataclass(frozen=True, slots=True)
class Line:
    """The operations of one kind of one stage, in order of micro-batch: the ends of those placed, and of those they wait
    for; each is `first_code` + micro-batch in `Placer.orders`."""

    rank: int
    ends: list[float]
    source: list[float]
    hop_s: float
    cost_s: float
    first_code: int
    forward: bool


class Placer:
    """State of one planning pass; rank r holds the stages with `rank_of[s] == r`. Memory is counted in chunks.

    `orders[r]`: what rank r runs, as (kind x S + stage) x M + micro-batch; numbers, since there are very many.
    A rank takes at least its work and the waits so far: a pass that must score more than `at_most_s` stops as `TooLong`.
    """

    def __init__(
        self, rank_of: list[int], micro_batches: int, costs: OrderCosts, limit: float, at_most_s: float = float("inf")
    ) -> None:
        ranks, stages = max(rank_of) + 1, len(rank_of)
        self.pp, self.m, self.limit, self.rank_of, self.stages = ranks, micro_batches, limit, rank_of, stages
        self.cost_s = {F: costs.forward_s, I: costs.backward_input_s, W: costs.backward_weight_s}
        self.kept, self.p2p_s, self.at_most_s = costs.weight_kept_frac, costs.p2p_s, at_most_s
        self.clock, self.first_s, self.idle, self.held = [0.0] * ranks, [-1.0] * ranks, [0.0] * ranks, [0.0] * ranks
        self.most_idle = 0.0
        self.pending: list[deque[int]] = [deque() for _ in range(ranks)]  # codes of the I whose W has not run
        self.orders: list[list[int]] = [[] for _ in range(ranks)]
        self.work_s = [0.0] * ranks
        for stage, rank in enumerate(rank_of):
            self.work_s[rank] += micro_batches * sum(cost[stage] for cost in self.cost_s.values())
        self.lines = self._lines()

    def _lines(self) -> dict[int, list[Line]]:
        """F waits for F of the stage before, I for I of the stage after; the last F start the I."""
        down = [self.p2p_s if a != b else 0.0 for a, b in zip(self.rank_of, self.rank_of[1:], strict=False)]
        ends_f: list[list[float]] = [[] for _ in self.rank_of]
        ends_i: list[list[float]] = [[] for _ in self.rank_of]
        sources = {F: [[0.0] * self.m, *ends_f[:-1]], I: [*ends_i[1:], ends_f[-1]]}
        hops, ends = {F: [0.0, *down], I: [*down, 0.0]}, {F: ends_f, I: ends_i}
        return {
            kind: [
                Line(rank, own, source, hop, cost, (kind * self.stages + stage) * self.m, kind == F)
                for stage, (rank, own, source, hop, cost) in enumerate(
                    zip(self.rank_of, ends[kind], sources[kind], hops[kind], self.cost_s[kind], strict=True)
                )
            ]
            for kind in (F, I)
        }

    def length_s(self) -> float:
        """The longest time between a rank's first and last operation; ends are staggered, so this is the period."""
        return max(end - first for end, first in zip(self.clock, self.first_s, strict=True))

    def score_s(self) -> float:
        """What candidates are compared by: the period, and among periods that all but agree, the whole pipeline."""
        return self.length_s() + 0.01 * max(self.clock)

    def done(self, kind: int, stage: int) -> int:
        return len(self.lines[kind][stage].ends)

    def ready_s(self, kind: int, stage: int) -> float | None:
        """When the next `kind` of `stage` could start; None while what it needs is not placed yet."""
        line = self.lines[kind][stage]
        index, source = len(line.ends), line.source
        return source[index] + line.hop_s if index < len(source) else None

    def put(self, kind: int, stage: int) -> None:
        """Runs the next forward or input backward of `stage`; memory must have been made."""
        self.put_next(self.lines[kind][stage])

    def put_next(self, line: Line) -> None:
        """Runs the next operation of a line."""
        index = len(line.ends)
        if index >= len(line.source):
            raise RuntimeError(f"operation {line.first_code + index} placed before what it needs")
        self.put_at(line, line.source[index] + line.hop_s)

    def put_at(self, line: Line, ready: float) -> None:
        """Runs the next operation of a line, whose input is there at `ready`."""
        rank, ends = line.rank, line.ends
        now = self.clock[rank]
        if self.first_s[rank] < 0:
            self.first_s[rank] = now = max(now, ready)
            self._wait(rank, 0.0)
        elif ready > now:
            self._wait(rank, ready - now)
            now = ready
        self.clock[rank] = now = now + line.cost_s
        code = line.first_code + len(ends)
        ends.append(now)
        self.orders[rank].append(code)
        if line.forward:
            self.held[rank] += 1.0
        else:
            self.held[rank] += self.kept - 1.0
            self.pending[rank].append(code)

    def _wait(self, rank: int, wait_s: float) -> None:
        self.idle[rank] = idle = self.idle[rank] + wait_s
        if idle > self.most_idle:
            self.most_idle = idle
        least = self.work_s[rank] + idle
        if least + 0.01 * (self.first_s[rank] + least) > self.at_most_s:
            raise TooLong

    def put_w(self, rank: int) -> None:
        code = self.pending[rank].popleft() + (W - I) * self.stages * self.m
        self.orders[rank].append(code)
        self.clock[rank] += self.cost_s[W][code // self.m - W * self.stages]
        self.held[rank] -= self.kept

    def next_w_s(self, rank: int) -> float:
        """Seconds of the next weight part, of those that are pending."""
        return self.cost_s[W][self.pending[rank][0] // self.m - I * self.stages]

    def make_room(self, rank: int, chunks: float = 1.0) -> bool:
        """Runs weight parts until `chunks` more fit; False when they never do."""
        while self.held[rank] + chunks > self.limit + 1e-9:
            if not self.pending[rank]:
                return False
            self.put_w(rank)
        return True

    def fill_wait(self, rank: int, ready_s: float, greedily: bool) -> None:
        """Weight parts while they end before `ready_s`; then one that ends later, if greedy or if a wait costs more."""
        pending = self.pending[rank]
        while pending:
            wait = ready_s - self.clock[rank]
            if wait <= 1e-12:
                return
            if self.next_w_s(rank) > wait:
                if greedily or wait > self.most_idle - self.idle[rank]:
                    self.put_w(rank)
                return
            self.put_w(rank)

    def play(self, orders: Sequence[Sequence[Op]]) -> None:
        """Runs given orders."""
        turns = [0] * self.pp
        moved = True
        while moved:
            moved = False
            for rank, order in enumerate(orders):
                while turns[rank] < len(order):
                    kind, stage, _ = order[turns[rank]]
                    if kind == W:
                        self.put_w(rank)
                    elif self.ready_s(kind, stage) is None:
                        break
                    else:
                        self.put(kind, stage)
                    turns[rank] += 1
                    moved = True

    def finish(self) -> None:
        """The weight parts that are left."""
        for rank in range(self.pp):
            while self.pending[rank]:
                self.put_w(rank)


def placed(name: str, shape: PipelineShape, rank_of: list[int], orders: list[list[int]]) -> Schedule:
    """The schedule of `Placer.orders`."""
    codes = np.concatenate([np.array(order, dtype=np.int64) for order in orders])
    ops = np.full((len(codes), 2, 3), -1, dtype=np.int32)
    line, ops[:, 0, 2] = np.divmod(codes, shape.micro_batches)
    ops[:, 0, 0], ops[:, 0, 1] = np.divmod(line, len(rank_of))
    return of_arrays(name, shape, rank_of, ops, np.cumsum([0, *map(len, orders)]))
