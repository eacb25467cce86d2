"""Places operations one at a time on ranks, as the automatic zero-bubble schedules do: clocks, waits, memory held."""

from __future__ import annotations

from collections import deque

from autodeploy.schedule.operations import F, I, OrderCosts, Slot, W


class Placer:
    """State of one planning pass; rank r holds the stages with `rank_of[s] == r`. Memory is counted in chunks."""

    def __init__(self, rank_of: list[int], micro_batches: int, costs: OrderCosts, limit: float) -> None:
        ranks, stages = max(rank_of) + 1, len(rank_of)
        self.pp, self.m, self.limit, self.rank_of = ranks, micro_batches, limit, rank_of
        self.cost_s = {F: costs.forward_s, I: costs.backward_input_s, W: costs.backward_weight_s}
        self.kept, self.p2p_s = costs.weight_kept_frac, costs.p2p_s
        self.last_stage = stages - 1
        self.clock, self.first_s, self.idle, self.held = [0.0] * ranks, [-1.0] * ranks, [0.0] * ranks, [0.0] * ranks
        self.most_idle = 0.0
        self.end_s: dict[int, list[list[float]]] = {F: [[] for _ in range(stages)], I: [[] for _ in range(stages)]}
        self.pending: list[deque[tuple[int, int]]] = [deque() for _ in range(ranks)]
        self.orders: list[list[Slot]] = [[] for _ in range(ranks)]

    def length_s(self) -> float:
        """The longest time between a rank's first and last operation; ends are staggered, so this is the period."""
        return max(end - first for end, first in zip(self.clock, self.first_s, strict=True))

    def score_s(self) -> float:
        """What candidates are compared by: the period, and among periods that all but agree, the whole pipeline."""
        return self.length_s() + 0.01 * max(self.clock)

    def done(self, kind: int, stage: int) -> int:
        return len(self.end_s[kind][stage])

    def ready_s(self, kind: int, stage: int) -> float | None:
        """When the next `kind` of `stage` could start; None while what it needs is not placed yet."""
        index = self.done(kind, stage)
        if index >= self.m:
            return None
        if kind == F and stage == 0:
            return 0.0
        if kind == I and (stage == self.last_stage or self.done(F, stage) <= index):
            source, hop = self.end_s[F][stage], False
        else:
            before = stage - 1 if kind == F else stage + 1
            source, hop = self.end_s[kind][before], self.rank_of[before] != self.rank_of[stage]
        if len(source) <= index:
            return None
        return source[index] + (self.p2p_s if hop else 0.0)

    def put(self, kind: int, stage: int) -> None:
        """Runs the next forward or input backward of `stage`; memory must have been made."""
        rank, index, ready = self.rank_of[stage], self.done(kind, stage), self.ready_s(kind, stage)
        if ready is None:
            raise RuntimeError(f"stage {stage}: operation {kind} of micro-batch {index} placed before what it needs")
        start = max(self.clock[rank], ready)
        if self.first_s[rank] < 0:
            self.first_s[rank] = start
        else:
            self.idle[rank] += start - self.clock[rank]
            self.most_idle = max(self.most_idle, self.idle[rank])
        self.clock[rank] = start + self.cost_s[kind][stage]
        self.end_s[kind][stage].append(self.clock[rank])
        self.orders[rank].append(((kind, stage, index),))
        self.held[rank] += 1.0 if kind == F else self.kept - 1.0
        if kind == I:
            self.pending[rank].append((stage, index))

    def put_w(self, rank: int) -> None:
        stage, index = self.pending[rank].popleft()
        self.orders[rank].append(((W, stage, index),))
        self.clock[rank] += self.cost_s[W][stage]
        self.held[rank] -= self.kept

    def make_room(self, rank: int, chunks: float = 1.0) -> bool:
        """Runs weight parts until `chunks` more fit; False when they never do."""
        while self.held[rank] + chunks > self.limit + 1e-9:
            if not self.pending[rank]:
                return False
            self.put_w(rank)
        return True

    def fill_wait(self, rank: int, ready_s: float, greedily: bool) -> None:
        """Weight parts while they end before `ready_s`; then one that ends later, if greedy or if a wait costs more."""
        while self.pending[rank]:
            wait = ready_s - self.clock[rank]
            if wait <= 1e-12:
                return
            if self.cost_s[W][self.pending[rank][0][0]] > wait:
                if greedily or wait > self.most_idle - self.idle[rank]:
                    self.put_w(rank)
                return
            self.put_w(rank)

    def play(self, orders: list[list[Slot]]) -> None:
        """Runs given orders."""
        turns = [0] * self.pp
        moved = True
        while moved:
            moved = False
            for rank, order in enumerate(orders):
                while turns[rank] < len(order):
                    kind, stage, _ = order[turns[rank]][0]
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
