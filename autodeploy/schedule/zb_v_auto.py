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
    require_two_chunks,
    v_placement,
)
from autodeploy.schedule.placing import Line, Placer, TooLong, placed
from autodeploy.schedule.zb_v_memory import Limits, best_pattern, half_pattern

EVEN_S = 1e-12  # passes that differ by less are as long as each other


def zero_bubble_v_auto(shape: PipelineShape) -> Schedule:
    """At most 2p half-stage chunks held on a rank; hardly any bubble when F = I = W."""
    require_two_chunks("zb-v-auto", shape)
    costs = shape.costs or OrderCosts.equal(2 * shape.pp)
    orders, first_s = _planned(shape, costs, [], float("inf"))
    # The pattern counts only where it is as short as the first plan, which seldom happens.
    limits = Limits(half_pattern(shape.pp), 2 * shape.pp, 2 * shape.pp)
    pattern_s, pattern = best_pattern(shape, costs, limits, at_most_s=first_s)
    if first_s >= pattern_s - EVEN_S:
        orders, _ = _planned(shape, costs, pattern, pattern_s)
    return placed("zb-v-auto", shape, v_placement(shape.pp), orders)


def _planned(
    shape: PipelineShape, costs: OrderCosts, best: list[list[int]], best_s: float
) -> tuple[list[list[int]], float]:
    """Orders of the passes, each of which must be shorter than the best so far; and the score of the first that was."""
    first_s = float("inf")
    for fill_f, fill_i in product((True, False), repeat=2):
        slack = [0.0] * shape.pp
        for _ in range(4):
            planner = VPlanner(shape, costs, slack, best_s - EVEN_S)
            shorter = planner.plans(fill_f, fill_i) and planner.score_s() < best_s - EVEN_S
            if shorter:
                best, best_s = planner.orders, planner.score_s()
                first_s = best_s if first_s == float("inf") else first_s
            if not planner.asked and not any(slack):
                return best, first_s  # every pass is this one
            if not shorter:
                break
            slack = [max(planner.idle) - idle for idle in planner.idle]
    return best, first_s


class VPlanner(Placer):
    """One pass; `slack[r]`: how much longer the busiest rank of the pass before waited than rank r."""

    def __init__(self, shape: PipelineShape, costs: OrderCosts, slack: list[float], at_most_s: float) -> None:
        super().__init__(v_placement(shape.pp), shape.micro_batches, costs, 2.0 * shape.pp, at_most_s)
        self.slack = slack
        self.asked = False  # whether a choice or the slack has ever decided

    def plans(self, fill_f: bool, fill_i: bool) -> bool:
        """False when the pass gets stuck, or too long."""
        try:
            return self.plan(fill_f, fill_i)
        except TooLong:
            return False

    def plan(self, fill_f: bool, fill_i: bool) -> bool:
        """False when the pass gets stuck, as it can on very uneven stages."""
        if not self._warm_up():
            return False
        left = 4 * self.pp * self.m - sum(len(line.ends) for kind in (F, I) for line in self.lines[kind])
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
        lines = self.lines[I]
        later: list[Line] = []
        earlier: list[Line] = []
        for rank in range(self.pp):
            first, second = lines[rank], lines[-1 - rank]
            done, behind = len(second.ends), len(first.ends)
            is_next = behind < done and (done >= self.m or behind < len(first.source))
            (later if is_next else earlier).append(first if is_next else second)
        moved = 0
        for line in later[::-1] + earlier:
            index, source = len(line.ends), line.source
            if index < len(source):
                self._fill(line, source[index] + line.hop_s, fill or line is lines[line.rank])
                self.put_next(line)
                moved += 1
        return moved

    def _forwards(self, fill: bool) -> int:
        """One forward a rank: of its second chunk where the input is there, else of its first."""
        lines, moved = self.lines[F], 0
        for rank in range(self.pp):
            line = lines[-1 - rank]
            if len(line.ends) >= len(line.source):
                line = lines[rank]
                if len(line.ends) >= len(line.source):
                    continue
            if not self.make_room(rank):
                continue
            self._fill(line, line.source[len(line.ends)] + line.hop_s, fill)
            self.put_next(line)
            moved += 1
        return moved

    def _fill(self, line: Line, ready_s: float, overrun: bool) -> None:
        """Weight parts into the wait for the next of `line`."""
        rank = line.rank
        while self.pending[rank]:
            wait = ready_s - self.clock[rank]
            if wait <= 0:
                return
            weight_s = self.next_w_s(rank)
            if weight_s > wait:
                worst = max(self.most_idle, max(self.idle[rank], self.slack[rank]))
                if wait > worst - self.idle[rank]:
                    self.asked = True
                    if overrun:
                        self.put_w(rank)
                return
            self.put_w(rank)
