"""The space of valid strategies as core x ways x ladder.

Core: TP PP CP EP ETP DP MBS. Ways: VPP, schedule, overlap, layout, dispatcher, ZeRO stage. Ladder: recompute, swap, offload.
Axes: C core points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autodeploy.errors import InputError
from autodeploy.strategy.axes import Axes
from autodeploy.strategy.backends import backend_named
from autodeploy.strategy.core import Asked, CorePoints, core_points, pipeline_sizes
from autodeploy.strategy.cuts import Cut, cuts_of
from autodeploy.strategy.plan import Piece, SpaceCounts, SpacePlan, asked_for, packed
from autodeploy.strategy.prune import DEVIATIONS, static_floor_bytes
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.strategies import Bool, StrategyBatch

CHUNK = 16384  # strategies in one part: large enough for numpy, small enough for the cache


class Space:
    """Plans for any numbers of cards; what depends on PP alone is found once.

    ``audit`` also yields what is pruned. ``keep_oversized`` keeps core points whose weights alone exceed the card (to
    name the nearest misses).
    """

    def __init__(
        self, model: ModelSpec, hardware: HardwareProfile, workload: Workload, backend: str, axes: Axes | None = None,
        *, audit: bool = False, keep_oversized: bool = False,
    ) -> None:  # fmt: skip
        self.asked = Asked(
            model=model, hardware=hardware, workload=workload, sizes=(), backend=backend_named(backend),
            axes=axes or Axes(),
        )  # fmt: skip
        self.audit, self.keep_oversized = audit, keep_oversized or audit
        self._cuts: dict[int, tuple[list[Cut], Counter[str]]] = {}

    def plan(self, sizes: Sequence[int], chunk: int = CHUNK) -> SpacePlan:
        """All that may be run on these numbers of cards."""
        if min(sizes, default=1) < 1:
            raise InputError("--devices", min(sizes), "a whole number of cards >= 1")
        asked, counts = replace(self.asked, sizes=tuple(sizes)), SpaceCounts()
        for devices in sizes:
            for pp in pipeline_sizes(asked.model, devices, asked.axes):
                counts.rejected.update(self._cuts_of(pp)[1])
        core = core_points(asked, lambda pp: len(self._cuts_of(pp)[0]), counts.rejected)
        pieces = list(self._pieces(core, counts))
        return SpacePlan(asked=asked, core=core, parts=packed(pieces, chunk), counts=counts, audit=self.audit)

    def _cuts_of(self, pp: int) -> tuple[list[Cut], Counter[str]]:
        """The cuts of a PP, and by rule the VPP values that are none."""
        if pp not in self._cuts:
            rejected: Counter[str] = Counter()
            self._cuts[pp] = cuts_of(self.asked, pp, rejected), rejected
        return self._cuts[pp]

    def _pieces(self, core: CorePoints, counts: SpaceCounts) -> Iterator[Piece]:
        """Every cut with the core points that it goes with."""
        oversized: dict[tuple[int, float], Bool] = {}
        for pp in sorted(set(core.pp.tolist())):
            rows = np.flatnonzero(core.pp == pp)
            for cut in self._cuts_of(pp)[0]:
                counts.core += len(rows)
                if not cut.ways:
                    counts.rejected["schedule-chunks"] += len(rows)
                    continue
                if cut.frugal not in oversized:
                    oversized[cut.frugal] = self._oversized(core, *cut.frugal)
                out = oversized[cut.frugal][rows]
                counts.pruned["weights-exceed-card"] += int(out.sum()) * len(cut.ways) * len(cut.ladder)
                yield Piece(cut, rows if self.keep_oversized else rows[~out])

    def _oversized(self, core: CorePoints, zero: int, offload_frac: float) -> Bool:
        """Core points whose weights and gradients alone exceed the card, [C]."""
        floor = static_floor_bytes(self.asked.model, self.asked.workload, core.plain(), zero, offload_frac)
        return np.asarray(floor > self.asked.hardware.usable_bytes)


@dataclass(slots=True)
class SpaceChunks:
    """Batches of strategies; iterate it once. ``counts`` grows on the way."""

    batches: Iterator[StrategyBatch]
    counts: SpaceCounts

    def __iter__(self) -> Iterator[StrategyBatch]:
        return self.batches


def enumerate_space(
    model: ModelSpec, hardware: HardwareProfile, workload: Workload, devices: int, backend: str, axes: Axes | None = None,
    *, audit: bool = False, keep_oversized: bool = False,
) -> SpaceChunks:  # fmt: skip
    """Every valid strategy of ``devices`` cards within ``axes``, written out, some ``CHUNK`` at a time."""
    space = Space(model, hardware, workload, backend, axes, audit=audit, keep_oversized=keep_oversized)
    plan = space.plan((devices,))
    return SpaceChunks(expanded(plan), plan.counts)


def expanded(plan: SpacePlan) -> Iterator[StrategyBatch]:
    """Every strategy of a plan, whose counts grow; what a step away is dominated comes too where it is audited."""
    for i in range(len(plan)):
        laddered, counts = plan.part(i)
        plan.counts.add(counts)
        batch = laddered.expand()
        for start in range(0, len(batch), CHUNK):
            yield batch.take(slice(start, start + CHUNK))
        if plan.audit:
            yield from _audited(plan, batch)


def _audited(plan: SpacePlan, batch: StrategyBatch) -> Iterator[StrategyBatch]:
    """The dominated strategies one step away."""
    for deviation in DEVIATIONS:
        where = deviation.where(plan.proposal(batch))
        if where.any() and not asked_for(plan.asked.axes, deviation.name):
            stepped = deviation.step(batch.take(where), plan.proposal(batch.take(where)))
            plan.counts.enumerated += len(stepped)
            yield stepped
