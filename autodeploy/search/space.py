"""The space as the screen reads it: batches of valid strategies, and counts of what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from autodeploy.search.request import SearchRequest
from cost_models.strategies import StrategyBatch

CHUNK = 16384  # strategies priced at once: large enough for numpy, small enough for the cache and for memory


@dataclass(slots=True)
class SpaceCounts:
    """Filled while the space is walked."""

    core: int = 0
    pruned: int = 0
    rejected: Counter[str] = field(default_factory=Counter)  # rule -> core points it excluded


class Space(Protocol):
    """``batches`` may be walked once for each number of cards; ``counts`` grows as it is walked."""

    def __call__(self, request: SearchRequest, devices: int, counts: SpaceCounts) -> Iterator[StrategyBatch]: ...


def chunks(space: Space, request: SearchRequest, counts: SpaceCounts) -> Iterator[StrategyBatch]:
    """All strategies of all numbers of cards asked for, at most CHUNK at a time."""
    for devices in request.devices:
        for batch in space(request, devices, counts):
            for start in range(0, len(batch), CHUNK):
                yield batch if len(batch) <= CHUNK else batch.take(slice(start, start + CHUNK))
