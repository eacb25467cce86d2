"""V-Half and V-Min: the V fold at half and a third of the memory of 1F1B (Qi et al. 2024, arXiv 2405.15362, section 3).

A repeating pattern of six unit slots fixes when each rank runs F and I of its two chunks; weight parts go where a rank
waits. The pattern is then played with the real costs, and forwards move into waits where the memory limit allows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from autodeploy.schedule.fixed_order import FixedOrder
from autodeploy.schedule.operations import (
    F,
    I,
    OrderCosts,
    PipelineShape,
    Schedule,
    require_two_chunks,
    v_placement,
)
from autodeploy.schedule.placing import LONGER, Placer, TooLong, placed
from cost_models.schedules.v_shaped import min_limit

PERIOD = 6  # unit slots per micro-batch and rank: F, I and W of two chunks


Turn = tuple[int, int, int]
Pattern = tuple[tuple[int, int, int, int], ...]


def v_half(shape: PipelineShape) -> Schedule:
    """At most p+2 half-stage chunks held on a rank (half of 1F1B's 2p, and one micro-batch)."""
    limit = shape.pp + 2
    return _from_pattern("zb-v-half", shape, Limits(half_pattern(shape.pp), limit, limit))


def v_min(shape: PipelineShape) -> Schedule:
    """At most 3, 4, 12 half-stage chunks in flight at p = 2, 4, 16: about a third of 1F1B's 2p. While two more wait for
    their weight parts they may be half there."""
    limits = Limits(min_pattern(shape.pp), 2 * (shape.pp // 3 + 1) + 2, min_limit(shape.pp))
    return _from_pattern("zb-v-min", shape, limits)


def half_pattern(pp: int) -> Pattern:
    """Slot of F first chunk, F second, I second, I first of micro-batch 0, per rank."""
    extra = 3 if pp % 2 == 0 else 0
    return tuple((2 * r, 3 * pp - r - 2, 3 * pp + extra + 2 * r - 1, 6 * pp + extra - r - 2) for r in range(pp))


def min_pattern(pp: int) -> Pattern:
    """As `half_pattern`, with the smallest distance between the forwards and backwards of a micro-batch."""
    extra = 2 if pp % 3 == 0 else 0
    return tuple((r, 2 * pp - r - 1, 2 * pp + extra + r, 4 * pp + extra - r - 1) for r in range(pp))


def _from_pattern(name: str, shape: PipelineShape, limits: Limits) -> Schedule:
    require_two_chunks(name, shape)
    _, orders = best_pattern(shape, shape.costs or OrderCosts.equal(2 * shape.pp), limits)
    return placed(name, shape, v_placement(shape.pp), orders)


@dataclass(frozen=True, slots=True)
class Limits:
    """A pattern, most half-stage chunks held on a rank, and most of these whose input backward has not run."""

    pattern: Pattern
    held: int
    whole: int


def best_pattern(
    shape: PipelineShape, costs: OrderCosts, limits: Limits, at_most_s: float = float("inf")
) -> tuple[float, list[list[int]]]:
    """The shortest of eight ways to play a pattern, and its score: fill waits greedily or not, run operations early or not;
    planned with the costs at hand or, as the published generator does, in unit slots and then run as planned.

    The latter do not depend on the costs: they come first, so that a pass with the costs can stop when it is longer. Exact
    up to `at_most_s`: beyond, some other score above it."""
    planned = [(each.score_s(costs), each.orders) for each in planned_in_units(shape.pp, shape.micro_batches, limits)]
    least = min(at_most_s, *(score for score, _ in planned))
    found: list[tuple[float, list[list[int]]]] = []
    for greedily, early in product((True, False), repeat=2):
        player = PatternPlayer(shape.pp, shape.micro_batches, costs, limits, LONGER * least)
        try:
            player.run(greedily, early)
        except TooLong:
            continue
        found.append((player.score_s(), player.orders))
        least = min(least, found[-1][0])
    return min((*found, *planned, (float("inf"), [])), key=lambda each: each[0])


@lru_cache(maxsize=32)
def planned_in_units(pp: int, micro_batches: int, limits: Limits) -> list[FixedOrder]:
    """The four plans of a pattern whose operations all take as long."""
    plans: list[FixedOrder] = []
    for greedily, early in product((True, False), repeat=2):
        player = PatternPlayer(pp, micro_batches, OrderCosts.equal(2 * pp), limits)
        player.run(greedily, early)
        if player.orders not in [plan.orders for plan in plans]:
            plans.append(FixedOrder(v_placement(pp), micro_batches, player.orders))
    return plans


@lru_cache(maxsize=32)
def program_of(pp: int, micro_batches: int, pattern: Pattern) -> tuple[list[Turn], list[list[Turn]]]:
    """(rank, kind, stage) of each F and I in the order of the pattern's slots: of all ranks, and of each."""
    slots = sorted(
        (slot + PERIOD * index, rank, part)
        for rank, row in enumerate(pattern)
        for part, slot in enumerate(row)
        for index in range(micro_batches)
    )
    turns = [(r, F if part < 2 else I, r if part in (0, 3) else 2 * pp - 1 - r) for _, r, part in slots]
    return turns, [[turn for turn in turns if turn[0] == rank] for rank in range(pp)]


class PatternPlayer(Placer):
    """Plays a pattern with real costs."""

    def __init__(
        self, pp: int, micro_batches: int, costs: OrderCosts, limits: Limits, at_most_s: float = float("inf")
    ) -> None:
        super().__init__(v_placement(pp), micro_batches, costs, float(limits.held), at_most_s)
        self.whole = limits.whole
        self.calendar, self.program = program_of(pp, micro_batches, limits.pattern)
        shortest = [
            min(self.cost_s[kind][stage] for kind in (F, I) for stage in (r, 2 * pp - 1 - r)) for r in range(pp)
        ]
        self.shortest_s = [each - 1e-12 for each in shortest]

    def run(self, greedily: bool, early: bool) -> None:
        turns, clock, pending = [0] * self.pp, self.clock, self.pending
        ahead: list[Counter[tuple[int, int]]] = [Counter() for _ in range(self.pp)]  # run before their turn
        lines = [self.lines[kind][stage] for _, kind, stage in self.calendar]
        for (rank, kind, stage), line in zip(self.calendar, lines, strict=True):
            if early:
                turns[rank] += 1
                if ahead[rank] and ahead[rank][kind, stage]:
                    ahead[rank][kind, stage] -= 1
                    continue
            ready = until = line.source[len(line.ends)] + line.hop_s
            if early and clock[rank] + self.shortest_s[rank] <= until:
                self._run_ahead(rank, until, turns[rank], ahead[rank])
                ready = line.source[len(line.ends)] + line.hop_s
            if line.forward and self.held[rank] + 1.0 > self.limit:
                self.make_room(rank)
            if until > clock[rank] and pending[rank]:
                self.fill_wait(rank, until, greedily)
            self.put_at(line, ready)
        self.finish()

    def _run_ahead(self, rank: int, ready_s: float, turn: int, ahead: Counter[tuple[int, int]]) -> None:
        """Operations of later turns that end before `ready_s`; a forward only if nothing until its turn overflows."""
        first, second = rank, 2 * self.pp - 1 - rank
        for kind, stage in ((I, first), (I, second), (F, second), (F, first)):
            line = self.lines[kind][stage]
            while len(line.ends) < len(line.source):
                start = max(line.source[len(line.ends)] + line.hop_s, self.clock[rank])
                if start + line.cost_s > ready_s + 1e-12:
                    break
                if kind == F and not self._room_until(rank, stage, turn, ahead):
                    break
                self.put_next(line)
                ahead[kind, stage] += 1

    def _room_until(self, rank: int, stage: int, turn: int, ahead: Counter[tuple[int, int]]) -> bool:
        """Counts what the rank would hold from now to the turn of the forward that is pulled ahead."""
        held = self.held[rank] + 1.0
        whole = held - self.kept * len(self.pending[rank])
        skip = Counter(ahead)
        program = self.program[rank]
        for position in range(turn - 1, len(program)):
            _, kind, at = program[position]
            if held > self.limit or whole > self.whole:
                return False
            if position >= turn and skip[kind, at]:
                skip[kind, at] -= 1
                continue
            if position >= turn and kind == F and at == stage:
                return True
            step = 1.0 if kind == F else -1.0
            held, whole = held + step, whole + step
        return False
