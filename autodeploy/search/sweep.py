"""Fine moves around what the screen found, every combination of them, in closed form: bounds first, then prices of what can
still win. Deterministic, and exhaustive over the moves.

Axes: B bases (strategies without relief), R rungs of a ladder, C combinations of them that could win.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from autodeploy.search.candidates import Candidates, best_first, objective
from autodeploy.search.contest import Contest, contest_of
from autodeploy.search.moves import (
    Reliefs,
    base_variants,
    free_moves,
    ladder_of,
    most_layers,
    reliefs_around,
    repeated,
    rungs_at,
)
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
        """Without relief; then with every recompute; then swap and offload beside those that do not fit yet. Each time what could
        still win, for no relief makes a step shorter. How many were weighed."""
        rows = np.arange(len(self.bases))
        plain = self._bounded(rows, NO_RELIEF)
        if self.reliefs.none:
            self._settle(rows, NO_RELIEF, plain)
        yield len(rows)
        rows = rows[(self._needy(rows, plain) | (not self.reliefs.none))[:, 0]]
        if not len(rows):
            return
        reliefs = self.reliefs.among_valid(self.bases.take(rows), self._valid)
        recomputes = reliefs.by_recompute(most_layers(self.bases.take(rows)))
        bound, once = self._bounded(rows, recomputes), ~repeated(recomputes)
        self._settle(rows, recomputes, bound, once)
        yield len(rows) * len(recomputes)
        base, rung = np.nonzero(self._needy(rows, bound) & once)
        if len(base):
            chosen = rungs_at(recomputes, base, rung)
            beside = reliefs.beside(chosen["recompute"], chosen["recompute_layers"])
            self._settle(rows[base], beside, self._bounded(rows[base], beside, self.request.hardware.usable_bytes))
            yield len(base) * len(beside)

    def _bounded(self, rows: NDArray[np.intp], ladder: Ladder, most_bytes: float = np.inf) -> Bounds:
        return self.twin.bounded(self.request, self.bases.take(rows), ladder, most_bytes)

    def _valid(self, batch: StrategyBatch) -> Bool:
        return self.twin.valid(self.request, batch)

    def _needy(self, rows: NDArray[np.intp], bound: Bounds) -> Bool:
        """Where more relief could win: what is likely enough to fit needs none, unless less memory is what is asked for, and
        what is too slow already gets slower, [B, R]."""
        least, nothing = bound.least_step_s, np.zeros_like(bound.least_step_s)
        safe = min(self.request.safe_bytes, self.request.hardware.usable_bytes)
        enough = (bound.peak_reserved_bytes <= safe) & (self.request.objective not in ("memory", "pareto"))
        return np.asarray(~enough & self._open(rows, least, nothing))

    def _open(self, rows: NDArray[np.intp], step_s: F64, memory: F64) -> Bool:
        """What could win, [B, R]."""
        score = objective(self.request.objective, self.bases.take(rows), step_s.T, memory.T).T
        group = np.broadcast_to(self.group[rows][:, None], step_s.shape)
        found = self.contest.open(group.reshape(-1), score.reshape(-1), step_s.reshape(-1), memory.reshape(-1))
        return found.reshape(step_s.shape)

    def _settle(self, rows: NDArray[np.intp], ladder: Ladder, bound: Bounds, among: Bool | bool = True) -> None:
        """Prices what could win, best bound first, until nothing is left that could."""
        step_s, memory = bound.least_step_s, bound.peak_reserved_bytes
        base, rung = np.nonzero(self._open(rows, step_s, memory) & among)
        batch = replace(self.bases.take(rows[base]), **rungs_at(ladder, base, rung))
        group, step_s, memory = self.group[rows[base]], step_s[base, rung], memory[base, rung]
        score = objective(self.request.objective, batch, step_s, memory)
        left = np.ones(len(batch), dtype=bool)
        while True:
            left &= self.contest.open(group, score, step_s, memory)
            now = np.flatnonzero(left)
            if not len(now):
                return
            now = now[_foremost(group[now], score[now])]
            left[now] = False
            self._price(batch.take(now), group[now])

    def _price(self, batch: StrategyBatch, group: I64) -> None:
        allowed = self._valid(batch)
        if allowed.any():
            priced = self.twin.screened(self.request, batch.take(allowed))
            self.contest.learn(group[allowed], priced)
            self.found.append(priced)


def _foremost(group: I64, score: F64) -> NDArray[np.intp]:
    """Rows priced next: all where they are few, else the best of each group."""
    if len(group) <= FEW:
        return np.arange(len(group))
    order = np.lexsort([score, group])
    sizes = np.bincount(group)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order[np.arange(len(order)) - starts < AT_ONCE]
