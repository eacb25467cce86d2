"""ZB-1p and ZB-2p: the automatic schedule of Qi et al. (2023, arXiv 2401.10241, section 3.1), any stage costs.

One pass places a micro-batch at a time: forwards from the first rank down, input backwards from the last rank up, and
weight parts into the waits. Three yes/no choices give eight passes; the shortest wins, or the handcrafted ZB-H1 (ZB-H2
for 2p) where it is shorter, as it can be on very uneven stages. A micro-batch counts whole from
its F to its I and `OrderCosts.weight_kept_frac` from there to its W (0.5 reproduces the published scheduler's bubbles).
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
    loop_placement,
    require_single_chunk,
)
from autodeploy.schedule.placing import LONGER, Placer, TooLong, placed
from cost_models.schedules.zero_bubble import handcrafted_orders


def zero_bubble_1p(shape: PipelineShape) -> Schedule:
    """At most p micro-batches held on a rank: the limit of 1F1B."""
    return _automatic("zb-1p", shape, shape.pp)


def zero_bubble_2p(shape: PipelineShape) -> Schedule:
    """At most 2p micro-batches held on a rank; the bubble all but vanishes."""
    return _automatic("zb-2p", shape, 2 * shape.pp)


def _automatic(name: str, shape: PipelineShape, limit: int) -> Schedule:
    require_single_chunk(name, shape)
    costs = shape.costs or OrderCosts.equal(shape.pp)
    rank_of = loop_placement(shape.pp, 1)
    by_hand = Placer(rank_of, shape.micro_batches, costs, limit)
    by_hand.play(handcrafted_orders(shape.pp, shape.micro_batches, depth=limit // shape.pp))
    best, best_s = by_hand.orders, by_hand.score_s()
    for early_forward, hold_forward, fill_greedily in product((True, False), repeat=3):
        planner = Planner(rank_of, shape.micro_batches, costs, limit, at_most_s=LONGER * best_s)
        if planner.beats(best_s, early_forward, hold_forward, fill_greedily):
            best, best_s = planner.orders, planner.score_s()
    return placed(name, shape, rank_of, best)


class Planner(Placer):
    """One pass over the micro-batches; stage and rank are the same here."""

    def beats(self, best_s: float, *choices: bool) -> bool:
        try:
            self.plan(*choices)
        except TooLong:
            return False
        return self.score_s() < best_s

    def plan(self, early_forward: bool, hold_forward: bool, fill_greedily: bool) -> None:
        self._first_micro_batch(early_forward)
        for _ in range(1, self.m):
            wanted = self._forwards_wanted(hold_forward)
            for rank in range(self.pp):
                if wanted[rank]:
                    self.make_room(rank)
                    self.fill_wait(rank, self.ready_s(F, rank) or 0.0, fill_greedily)
                    self.put(F, rank)
            for rank in range(self.pp - 1, -1, -1):
                if rank < self.pp - 1:
                    self.fill_wait(rank, self.ready_s(I, rank) or 0.0, fill_greedily)
                if rank == 0 and self.done(F, 0) == self.m:
                    while self.pending[0]:
                        self.put_w(0)
                self.put(I, rank)
        self.finish()

    def _first_micro_batch(self, early_forward: bool) -> None:
        """The first forward down, as many more as fit before the first backward comes back, the first backward up."""
        for rank in range(self.pp):
            self.put(F, rank)
        extra = [0] * self.pp
        last = self.pp - 1
        back_s = self.clock[last] + self.cost_s[I][last]
        for rank in range(last - 1, -1, -1):
            at_s = self.clock[rank]
            back_s += self.p2p_s
            while 1 + extra[rank] < min(self.m, self.limit):
                end_s = at_s + self.cost_s[F][rank]
                if (end_s > back_s) if early_forward else (at_s >= back_s):
                    break
                at_s, extra[rank] = end_s, extra[rank] + 1
            back_s = max(at_s, back_s) + self.cost_s[I][rank]
        for rank in range(1, self.pp):
            extra[rank] = max(0, min(extra[rank], extra[rank - 1] - 1))
        for rank in range(self.pp):
            for _ in range(extra[rank]):
                self.put(F, rank)
        for rank in range(last, -1, -1):
            self.put(I, rank)

    def _forwards_wanted(self, hold_forward: bool) -> list[bool]:
        """Ranks that take a forward this round; with `hold_forward` one waits while the next rank is well supplied."""
        wanted = [self.done(F, r) < self.m and not (hold_forward and self._better_held(r)) for r in range(self.pp)]
        for rank in range(self.pp - 2, -1, -1):
            if self.done(F, rank + 1) < self.m:
                wanted[rank] = wanted[rank] and wanted[rank + 1]
        return wanted

    def _better_held(self, rank: int) -> bool:
        below = rank + 1
        if below >= self.pp or self.done(F, rank) < self.done(F, below) + 2:
            return False
        needed_s = self.clock[below] + self.cost_s[F][below] + self.cost_s[I][below] + self.p2p_s
        if self.clock[rank] >= needed_s:
            return True
        weights = min(len(self.pending[rank]), self._weights_before_forward(rank))
        if self.clock[rank] + self.cost_s[F][rank] + weights * self.cost_s[W][rank] <= needed_s:
            return False
        return needed_s - self.clock[rank] <= self.most_idle - self.idle[rank]

    def _weights_before_forward(self, rank: int) -> int:
        """Weight parts that must run so that one more micro-batch fits."""
        excess = self.held[rank] + 1.0 - self.limit
        return 0 if excess <= 1e-9 else int(-(-excess // self.kept)) if self.kept else 0
