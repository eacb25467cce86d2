"""The space as the screen reads it: batches of valid strategies, and counts of what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autodeploy.search.request import SearchRequest
from cost_models.strategies import StrategyBatch

CHUNK = 16384  # strategies priced at once: large enough for numpy, small enough for the cache and for memory


@dataclass(slots=True)
class WalkCounts:
    """Filled while the space is walked."""

    core: int = 0
    pruned: int = 0
    sizes: int = 0  # numbers of cards whose strategies have all been walked
    rejected: Counter[str] = field(default_factory=Counter)  # rule -> core points it excluded


class Space(Protocol):
    """``batches`` may be walked once for each number of cards; ``counts`` grows as it is walked."""

    def __call__(self, request: SearchRequest, devices: int, counts: WalkCounts) -> Iterator[StrategyBatch]: ...


def chunks(space: Space, request: SearchRequest, counts: WalkCounts) -> Iterator[StrategyBatch]:
    """All strategies of all numbers of cards asked for, at most CHUNK at a time; sizes coarse to fine, so that a search
    that is stopped early has seen the whole range."""
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
