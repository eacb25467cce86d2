"""Fine moves around what the screen found, every combination of them, in closed form: bounds first, then prices of what can
still win. Deterministic, and exhaustive over the moves.

Axes: B bases (strategies without relief), R rungs of a ladder, C combinations of them that could win.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from autodeploy.search.candidates import Candidates, best_first, objective
from autodeploy.search.contest import Contest, contest_of
from autodeploy.search.moves import Reliefs, base_variants, free_moves, ladder_of, most_layers, reliefs_around
from autodeploy.search.refined import NOTHING, Refined
from autodeploy.search.request import Progress, SearchRequest
from autodeploy.search.twin import Twin
from cost_models.strategies import F64, I64, Bool, Ladder, StrategyBatch

if TYPE_CHECKING:
    from cost_models.step import Bounds

ORIGINS = 48  # best strategies that are moved around
FASTER_ORIGINS = 24  # strategies that would be faster still and almost fit
FEW, AT_ONCE = 64, 4  # priced at once: all where they are few, else so many of a group, best bound first
NO_RELIEF = ladder_of([(0, 0)], [0.0], [0.0])


def sweep_around(
    request: SearchRequest, origins: Candidates, pool: Candidates, twin: Twin, places: int, *,
    deadline: float | None = None, progress: Progress | None = None,
) -> Refined:  # fmt: skip
    """What the moves make of the origins that is better than the pool in its group, where that may be among the first
    ``places`` groups."""
    began = time.monotonic()
    if request.trials == 0 or not len(origins):
        return NOTHING
    sweep = _Sweep.of(request, origins.batch, pool, twin, places)
    weighed, timed_out, interrupted = 0, False, False
    try:
        for count in sweep.rounds():
            weighed += count
            if progress:
                progress("refining", weighed, None)
            timed_out = deadline is not None and time.monotonic() > deadline
            if timed_out:
                break
    except KeyboardInterrupt:  # what was found until then is ranked
        interrupted = True
    found = Candidates.concatenate(sweep.found) if sweep.found else None
    return Refined(found, weighed, time.monotonic() - began, timed_out, interrupted)


def origins_around(pool: Candidates, almost: Candidates) -> Candidates:
    """What is moved around: the best of the pool, and what would be faster still and almost fits."""
    best = pool.take(best_first(pool)[:ORIGINS])
    faster = almost.take(almost.score < best.score[-1])
    return Candidates.concatenate([best, faster.take(best_first(faster)[:FASTER_ORIGINS])])


@dataclass(slots=True)
class _Sweep:
    request: SearchRequest
    twin: Twin
    reliefs: Reliefs
    bases: StrategyBatch
    contest: Contest
    group: I64  # [B]
    found: list[Candidates] = field(default_factory=list)

    @staticmethod
    def of(request: SearchRequest, origins: StrategyBatch, pool: Candidates, twin: Twin, places: int) -> _Sweep:
        free = free_moves(request.axes)
        bases = base_variants(origins, request.workload.global_batch, free)
        bases = bases.take(twin.valid(request, bases))
        contest, group = contest_of(request, pool, bases, places)
        return _Sweep(request, twin, reliefs_around(origins, free), bases, contest, group)

    def rounds(self) -> Iterator[int]:
        """Without relief, then recompute of modules, then of whole layers, swap and offload beside both; each time what could
        still win, for no relief makes a step shorter. How many were weighed."""
        every = np.arange(len(self.bases))
        plain = self.twin.bounded(self.request, self.bases, NO_RELIEF)
        least_s = plain.least_step_s[:, 0]
        if self.reliefs.none:
            self._settle(every, NO_RELIEF, plain)
        yield len(every)
        left = self._hopeful(every[~self._enough(plain)], least_s)
        if not len(left):
            return
        reliefs = self.reliefs.among_valid(self.bases.take(left), self._valid)
        for rows, ladder in reliefs.ladders(most_layers(self.bases.take(left))):
            rows = self._hopeful(left[rows], least_s)
            if len(rows):
                self._settle(rows, ladder, self.twin.bounded(self.request, self.bases.take(rows), ladder))
                yield len(rows) * len(ladder)

    def _valid(self, batch: StrategyBatch) -> Bool:
        return self.twin.valid(self.request, batch)

    def _enough(self, plain: Bounds) -> Bool:
        """Bases that need no relief, [B]; less memory is always better where that is asked for."""
        if self.request.objective in ("memory", "pareto") or not self.reliefs.none:
            return np.zeros(len(self.bases), dtype=bool)
        safe = min(self.request.safe_bytes, self.request.hardware.usable_bytes)
        return np.asarray(plain.peak_reserved_bytes[:, 0] <= safe)

    def _hopeful(self, rows: NDArray[np.intp], least_s: F64) -> NDArray[np.intp]:
        """Of ``rows``, those that could win if memory were no matter."""
        least, nothing = least_s[rows], np.zeros(len(rows))
        score = objective(self.request.objective, self.bases.take(rows), least, nothing)
        return rows[self.contest.open(self.group[rows], score, least, nothing)]

    def _settle(self, rows: NDArray[np.intp], ladder: Ladder, bound: Bounds) -> None:
        """Prices what could win, best bound first, until nothing is left that could."""
        step_s, memory = bound.least_step_s, bound.peak_reserved_bytes
        score = objective(self.request.objective, self.bases.take(rows), step_s.T, memory.T).T
        base, rung = (each.reshape(-1) for each in np.indices(step_s.shape))
        base, score, step_s, memory = rows[base], score.reshape(-1), step_s.reshape(-1), memory.reshape(-1)
        left = np.arange(len(base))
        while True:
            left = left[self.contest.open(self.group[base[left]], score[left], step_s[left], memory[left])]
            if not len(left):
                return
            now = left[_foremost(self.group[base[left]], score[left])]
            self._price(base[now], rung[now], ladder)
            left = np.setdiff1d(left, now)

    def _price(self, base: NDArray[np.intp], rung: NDArray[np.intp], ladder: Ladder) -> None:
        columns = {each.name: getattr(ladder, each.name)[rung] for each in fields(ladder)}
        batch = replace(self.bases.take(base), **columns)
        allowed = self._valid(batch)
        if allowed.any():
            priced = self.twin.screened(self.request, batch.take(allowed))
            self.contest.learn(self.group[base[allowed]], priced)
            self.found.append(priced)


def _foremost(group: I64, score: F64) -> NDArray[np.intp]:
    """Rows priced next: all where they are few, else the best of each group."""
    if len(group) <= FEW:
        return np.arange(len(group))
    order = np.lexsort([score, group])
    sizes = np.bincount(group)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order[np.arange(len(order)) - starts < AT_ONCE]
