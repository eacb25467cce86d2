"""V-Half and V-Min: the V fold at half and a third of the memory of 1F1B (Qi et al. 2024, arXiv 2405.15362, section 3).

A repeating pattern of six unit slots fixes when each rank runs F and I of its two chunks; weight parts go where a rank
waits. The pattern is then played with the real costs, and forwards move into waits where the memory limit allows.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

from autodeploy.schedule.operations import (
    F,
    I,
    OrderCosts,
    PipelineShape,
    Schedule,
    one_direction,
    require_two_chunks,
    v_placement,
)
from autodeploy.schedule.placing import Placer
from cost_models.schedules.v_shaped import min_limit

PERIOD = 6  # unit slots per micro-batch and rank: F, I and W of two chunks


def v_half(shape: PipelineShape) -> Schedule:
    """At most p+2 half-stage chunks held on a rank (half of 1F1B's 2p, and one micro-batch)."""
    return _from_pattern("zb-v-half", shape, half_pattern(shape.pp), shape.pp + 2)


def v_min(shape: PipelineShape) -> Schedule:
    """At most 3, 4, 12 half-stage chunks in flight at p = 2, 4, 16: about a third of 1F1B's 2p. While two more wait for
    their weight parts they may be half there."""
    limit = min_limit(shape.pp)
    return _from_pattern("zb-v-min", shape, min_pattern(shape.pp), 2 * (shape.pp // 3 + 1) + 2, limit)


def half_pattern(pp: int) -> list[list[int]]:
    """Slot of F first chunk, F second, I second, I first of micro-batch 0, per rank."""
    extra = 3 if pp % 2 == 0 else 0
    return [[2 * r, 3 * pp - r - 2, 3 * pp + extra + 2 * r - 1, 6 * pp + extra - r - 2] for r in range(pp)]


def min_pattern(pp: int) -> list[list[int]]:
    """As `half_pattern`, with the smallest distance between the forwards and backwards of a micro-batch."""
    extra = 2 if pp % 3 == 0 else 0
    return [[r, 2 * pp - r - 1, 2 * pp + extra + r, 4 * pp + extra - r - 1] for r in range(pp)]


def _from_pattern(
    name: str, shape: PipelineShape, pattern: list[list[int]], limit: int, whole: int | None = None
) -> Schedule:
    require_two_chunks(name, shape)
    player = best_pattern(shape, shape.costs or OrderCosts.equal(2 * shape.pp), pattern, limit, whole)
    return one_direction(name, shape, v_placement(shape.pp), player.orders)


def best_pattern(
    shape: PipelineShape, costs: OrderCosts, pattern: list[list[int]], limit: int, whole: int | None = None
) -> Placer:
    """The shortest of eight ways to play a pattern: fill waits greedily or not, run operations early or not; planned with
    the costs at hand or, as the published generator does, in unit slots and then run as planned."""
    found: list[Placer] = []
    for planned_with, greedily, early in product((costs, OrderCosts.equal(2 * shape.pp)), (True, False), (True, False)):
        player = PatternPlayer(shape, planned_with, pattern, limit, whole or limit)
        player.run(greedily, early)
        if planned_with is costs:
            found.append(player)
            continue
        run = Placer(v_placement(shape.pp), shape.micro_batches, costs, float(limit))
        run.play(player.orders)
        found.append(run)
    return min(found, key=lambda each: each.score_s())


class PatternPlayer(Placer):
    """Plays a pattern with real costs; `profile[r]` is what rank r holds after each of its F and I, W at once."""

    def __init__(
        self, shape: PipelineShape, costs: OrderCosts, pattern: list[list[int]], limit: int, whole: int
    ) -> None:
        self.whole = whole  # chunks whose input backward has not run, at most
        super().__init__(v_placement(shape.pp), shape.micro_batches, costs, float(limit))
        self.program: list[list[tuple[int, int]]] = [[] for _ in range(shape.pp)]
        self.calendar: list[int] = []
        slots = sorted(
            (slot + PERIOD * index, rank, part)
            for rank, row in enumerate(pattern)
            for part, slot in enumerate(row)
            for index in range(shape.micro_batches)
        )
        for _, rank, part in slots:
            stage = rank if part in (0, 3) else 2 * shape.pp - 1 - rank
            self.program[rank].append((F if part < 2 else I, stage))
            self.calendar.append(rank)

    def run(self, greedily: bool, early: bool) -> None:
        turns = [0] * self.pp
        ahead: list[Counter[tuple[int, int]]] = [Counter() for _ in range(self.pp)]  # run before their turn
        for rank in self.calendar:
            kind, stage = self.program[rank][turns[rank]]
            turns[rank] += 1
            if ahead[rank][kind, stage]:
                ahead[rank][kind, stage] -= 1
                continue
            ready = self.ready_s(kind, stage) or 0.0
            if early:
                self._run_ahead(rank, ready, turns[rank], ahead[rank])
            if kind == F:
                self.make_room(rank)
            self.fill_wait(rank, ready, greedily)
            self.put(kind, stage)
        self.finish()

    def _run_ahead(self, rank: int, ready_s: float, turn: int, ahead: Counter[tuple[int, int]]) -> None:
        """Operations of later turns that end before `ready_s`; a forward only if nothing until its turn overflows."""
        first, second = rank, 2 * self.pp - 1 - rank
        for kind, stage in ((I, first), (I, second), (F, second), (F, first)):
            while self._fits_before(rank, kind, stage, ready_s):
                if kind == F and not self._room_until(rank, stage, turn, ahead):
                    break
                self.put(kind, stage)
                ahead[kind, stage] += 1

    def _fits_before(self, rank: int, kind: int, stage: int, ready_s: float) -> bool:
        own = self.ready_s(kind, stage)
        return own is not None and max(own, self.clock[rank]) + self.cost_s[kind][stage] <= ready_s + 1e-12

    def _room_until(self, rank: int, stage: int, turn: int, ahead: Counter[tuple[int, int]]) -> bool:
        """Counts what the rank would hold from now to the turn of the forward that is pulled ahead."""
        held = self.held[rank] + 1.0
        whole = held - self.kept * len(self.pending[rank])
        skip = Counter(ahead)
        for position, (kind, at) in enumerate(self.program[rank][turn - 1 :]):
            if held > self.limit or whole > self.whole:
                return False
            if position and skip[kind, at]:
                skip[kind, at] -= 1
                continue
            if position and kind == F and at == stage:
                return True
            step = 1.0 if kind == F else -1.0
            held, whole = held + step, whole + step
        return False
