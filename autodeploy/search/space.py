"""The space as the screen reads it: bases x ladder, or batches of strategies; and counts of what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autodeploy.search.request import SearchRequest
from autodeploy.strategy.laddered import Laddered
from autodeploy.strategy.plan import SpaceCounts
from cost_models.strategies import StrategyBatch

PART = 1 << 19  # bases x rungs bounded at once: so many that a call's fixed cost is small
CHUNK = 16384  # strategies priced at once: large enough for numpy, small enough for the cache and for memory


@dataclass(slots=True)
class WalkCounts:
    """Filled while the space is walked."""

    core: int = 0
    pruned: int = 0
    sizes: int = 0  # numbers of cards whose strategies have all been walked
    rejected: Counter[str] = field(default_factory=Counter)  # rule -> core points it excluded

    def add(self, counts: SpaceCounts) -> None:
        self.core += counts.core
        self.pruned += sum(counts.pruned.values())
        self.rejected.update(counts.rejected)


class Space(Protocol):
    """``batches`` may be walked once for each number of cards; ``counts`` grows as it is walked."""

    def __call__(self, request: SearchRequest, devices: int, counts: WalkCounts) -> Iterator[StrategyBatch]: ...


class Plan(Protocol):
    """The space of some numbers of cards as bases x ladder, in parts that may be had in any order, in any process."""

    @property
    def counts(self) -> SpaceCounts: ...  # what the plan itself leaves out

    @property
    def most(self) -> int: ...  # strategies, before the rules of the options

    def __len__(self) -> int: ...

    def part(self, i: int) -> tuple[Laddered, SpaceCounts]: ...


class LadderSpace(Protocol):
    """``autodeploy.strategy.space.Space`` or a stand-in."""

    def plan(self, sizes: Sequence[int], chunk: int) -> Plan: ...


Sized = tuple[tuple[int, ...], Plan]  # numbers of cards, and their plan


def plans(space: LadderSpace, request: SearchRequest, counts: WalkCounts) -> Iterator[Sized]:
    """Numbers of cards with their plan, coarse to fine, so that a search that is stopped early has seen the whole range. Small
    spaces share one."""
    left, count = coarse_to_fine(request.devices), 1
    while left:
        sizes, left = tuple(left[:count]), left[count:]
        plan = space.plan(sizes, PART)
        counts.add(plan.counts)
        yield sizes, plan
        counts.sizes += len(sizes)
        count = max(1, min(2 * count, count * PART // max(plan.most, 1)))


def chunks(space: Space, request: SearchRequest, counts: WalkCounts) -> Iterator[StrategyBatch]:
    """All strategies of all numbers of cards asked for, at most CHUNK at a time; sizes coarse to fine."""
    for devices in coarse_to_fine(request.devices):
        for batch in space(request, devices, counts):
            for start in range(0, len(batch), CHUNK):
                yield batch if len(batch) <= CHUNK else batch.take(slice(start, start + CHUNK))
        counts.sizes += 1


def coarse_to_fine(values: Sequence[int]) -> list[int]:
    """The ends, the middle, the quarters, the eighths, ...: every value once."""
    count = len(values)
    order = dict.fromkeys([0, count - 1]) if count else {}
    step = 1
    while step < count:
        step *= 2
    while step > 1:
        step //= 2
        order |= dict.fromkeys(range(0, count, step))
    return [values[i] for i in order]
