"""ZB-V planned with the costs: two chunks a rank, folded as a V, weight parts in the waits, at the memory of 1F1B.

Source: arXiv 2401.10241, section 6.

Each round places one input backward and then one forward on every rank: of the second chunk where its input is there,
else of the first. Two yes/no choices (a weight part that overruns a wait, before F and before I) give four passes, each
repeated while knowing the waits of the pass before shortens it; the pattern of V-Half stands in where it is shorter.
"""

from __future__ import annotations

from itertools import product

from autodeploy.schedule.operations import (
    F,
    I,
    OrderCosts,
    PipelineShape,
    Schedule,
    W,
    one_direction,
    require_two_chunks,
    v_placement,
)
from autodeploy.schedule.placing import Placer
from autodeploy.schedule.zb_v_memory import best_pattern, half_pattern


def zero_bubble_v_auto(shape: PipelineShape) -> Schedule:
    """At most 2p half-stage chunks held on a rank; hardly any bubble when F = I = W."""
    require_two_chunks("zb-v-auto", shape)
    costs = shape.costs or OrderCosts.equal(2 * shape.pp)
    player = best_pattern(shape, costs, half_pattern(shape.pp), 2 * shape.pp)
    best, best_s = player.orders, player.score_s()
    for fill_f, fill_i in product((True, False), repeat=2):
        slack = [0.0] * shape.pp
        for _ in range(4):
            planner = VPlanner(shape, costs, slack)
            if not planner.plan(fill_f, fill_i) or planner.score_s() >= best_s - 1e-12:
                break
            best, best_s = planner.orders, planner.score_s()
            slack = [max(planner.idle) - idle for idle in planner.idle]
    return one_direction("zb-v-auto", shape, v_placement(shape.pp), best)


class VPlanner(Placer):
    """One pass; `slack[r]`: how much longer the busiest rank of the pass before waited than rank r."""

    def __init__(self, shape: PipelineShape, costs: OrderCosts, slack: list[float]) -> None:
        super().__init__(v_placement(shape.pp), shape.micro_batches, costs, 2.0 * shape.pp)
        self.slack = slack

    def plan(self, fill_f: bool, fill_i: bool) -> bool:
        """False when the pass gets stuck, as it can on very uneven stages."""
        if not self._warm_up():
            return False
        left = 4 * self.pp * self.m - sum(len(ends) for kind in (F, I) for ends in self.end_s[kind])
        while left:
            moved = self._backwards(fill_i) + self._forwards(fill_f)
            if not moved:
                return False
            left -= moved
        self.finish()
        return True

    def second(self, rank: int) -> int:
        """The stage of the second chunk of `rank`."""
        return 2 * self.pp - 1 - rank

    def _warm_up(self) -> bool:
        """Down and up the V once, first chunks in the waits; then alternate chunks until each rank has its share."""
        for rank in range(self.pp):
            self.put(F, rank)
        for rank in range(self.pp - 1, -1, -1):
            ready = self.ready_s(F, self.second(rank)) or 0.0
            while (
                rank < self.pp - 1
                and self.held[rank] + 2 + 2 * rank <= self.limit
                and self.clock[rank] + self.cost_s[F][rank] <= ready
                and self.done(F, rank) < self.m
            ):
                for above in range(rank + 1):
                    self.put(F, above)
            self.put(F, self.second(rank))
        chunk, idle_turns = 0, 0
        for rank in range(1, self.pp):
            while self._forwards_done(rank) < self._forwards_done(rank - 1) or (
                self.done(F, self.second(rank)) <= self.done(F, self.second(rank - 1)) < self.m
            ):
                moved = False
                for below in range(self.pp - 1, rank - 1, -1):
                    stage = self.second(below) if chunk else below
                    if self.ready_s(F, stage) is not None and self.held[below] + 1 <= self.limit:
                        self.put(F, stage)
                        moved = True
                chunk, idle_turns = 1 - chunk, 0 if moved else idle_turns + 1
                if idle_turns > 1:
                    break
        return all(held <= self.limit for held in self.held)

    def _forwards_done(self, rank: int) -> int:
        return self.done(F, rank) + self.done(F, self.second(rank))

    def _backwards(self, fill: bool) -> int:
        """One input backward a rank: of its first stage (the later one) where possible, else of its second."""
        later = [rank for rank in range(self.pp) if self._later_is_next(rank)]
        earlier = [self.second(rank) for rank in range(self.pp) if rank not in later]
        moved = 0
        for stage in later[::-1] + earlier:
            ready = self.ready_s(I, stage)
            if ready is None:
                continue
            self._fill(self.rank_of[stage], ready, fill or stage < self.pp)
            self.put(I, stage)
            moved += 1
        return moved

    def _later_is_next(self, rank: int) -> bool:
        done = self.done(I, self.second(rank))
        if self.done(I, rank) >= done:
            return False
        return done >= self.m or self.ready_s(I, rank) is not None

    def _forwards(self, fill: bool) -> int:
        moved = 0
        for rank in range(self.pp):
            stage = self._next_forward(rank)
            if stage is None or not self.make_room(rank):
                continue
            self._fill(rank, self.ready_s(F, stage) or 0.0, fill)
            self.put(F, stage)
            moved += 1
        return moved

    def _next_forward(self, rank: int) -> int | None:
        second = self.second(rank)
        if self.done(F, second) < self.m and self.ready_s(F, second) is not None:
            return second
        if self.done(F, rank) < self.m and self.ready_s(F, rank) is not None:
            return rank
        return None

    def _fill(self, rank: int, ready_s: float, overrun: bool) -> None:
        while self.pending[rank]:
            wait = ready_s - self.clock[rank]
            weight_s = self.cost_s[W][self.pending[rank][0][0]]
            if wait <= 0:
                return
            if weight_s > wait:
                worst = max(self.most_idle, max(self.idle[rank], self.slack[rank]))
                if overrun and wait > worst - self.idle[rank]:
                    self.put_w(rank)
                return
            self.put_w(rank)
