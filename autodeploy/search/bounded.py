"""Bounds before prices: exact memory and least time of all, exact times of what can still enter the shortlist.

Axes: N strategies, B bases, R rungs, G groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from autodeploy.search.candidates import Candidates, first_of_equals, no_candidates, objective_of
from autodeploy.search.cutoffs import Scored, cutoffs, margins
from autodeploy.search.request import SearchRequest
from autodeploy.search.rows import Rows, groups_of, nearest_rows, written_out
from autodeploy.search.shortlist import MISSES, Keeping, Shortlist, departures_of, raised, shorten
from autodeploy.search.twin import Twin
from autodeploy.strategy.laddered import Laddered
from cost_models.strategies import I64, Bool

WINDOW = 1 << 20  # strategies remembered before the best of them are priced and the others forgotten
FIRST_BATCH = 1024  # priced at once; each batch after it is twice as large
SLACK = 1e-6  # best first goes by scores in single precision; a bound may exceed the price by its rounding
AHEAD = 1.05  # what is priced though, going by bounds alone, it would just miss: bounds lie a little below prices


class BoundedScreen:
    """Parts of a space go in; shortlists come out, each of what has gone in since the last. ``over``: when to stop pricing."""

    def __init__(self, request: SearchRequest, twin: Twin, keeping: Keeping, over: Callable[[], bool]) -> None:
        assert twin.bounds is not None
        self.request, self.twin, self.keeping, self.over, self.bounds = request, twin, keeping, over, twin.bounds
        self.screened = 0
        self._window: list[Rows] = []
        self._misses: list[Rows] = []  # of each part the nearest, where they are asked for
        self._in_window = self._feasible = 0
        self._before: Shortlist | None = None  # of all windows so far
        self._known: Candidates | None = None  # what it holds

    def add(self, part: Laddered) -> Shortlist | None:
        """Pass 1 over one part; and pass 2 where the window is full."""
        if not len(part):
            return None
        found = self.bounds(self.request.case, part.bases, part.ladder, self.keeping.almost_bytes)
        memory = found.peak_reserved_bytes
        self._in_window += len(part)
        self.screened += len(part)
        self._feasible += int(np.count_nonzero(part.allowed & (memory <= self.keeping.cap_bytes)))
        rows = Rows.where(part, found, part.allowed & (memory <= self.keeping.almost_bytes))
        if self.known is not None and len(rows):
            rows = rows.take(_Pricing(self, [rows]).hopeful(np.arange(len(rows))))
        self._window.append(rows.compact())
        if self.keeping.misses:
            misses = Rows.where(part, found, part.allowed & (memory > self.keeping.cap_bytes))
            self._misses += [rows.compact() for rows in nearest_rows([misses], MISSES)]
        return self.flush() if sum(map(len, self._window)) > WINDOW else None

    def flush(self) -> Shortlist | None:
        """Pass 2 over what has gone in since the last time: its shortlist, and all the rest of it is forgotten."""
        if not self._in_window:
            return None
        window = [rows for rows in self._window if len(rows)]
        priced = _Pricing(self, window).run() if window else no_candidates()
        misses = nearest_rows(self._misses, MISSES)
        if misses:
            nearest = self.twin.screened(self.request, written_out(misses))
            priced = distinct([priced, nearest])
        found = shorten(priced, self.keeping, self._in_window, self._feasible)
        self._before = found if self._before is None else self._before.merge(found, self.keeping)
        self._window, self._misses, self._in_window, self._feasible, self._known = [], [], 0, 0, None
        return found

    @property
    def known(self) -> Candidates | None:
        """What the shortlist of all windows so far holds, each strategy once."""
        if self._known is None and self._before is not None:
            kept = ("groups", "overall", "front", "almost", "sizes", "safe", "plain")
            self._known = distinct([getattr(self._before, name) for name in kept])
        return self._known


class _Pricing:
    """Pass 2: the strategies of a window, their scores at least, and the exact scores of those priced so far."""

    def __init__(self, screen: BoundedScreen, parts: Sequence[Rows]) -> None:
        self.screen, self.parts = screen, parts
        known = screen.known
        batches = [rows.space.bases for rows in parts] + ([known.batch] if known is not None else [])
        group, self.size_of, devices_of = groups_of(batches)
        firsts = np.cumsum([0, *map(len, batches)])
        of_rows = [group[rows.base + first] for rows, first in zip(parts, firsts, strict=False)]
        self.rows = Scored.concatenate(
            [self._bounds(rows, of, devices_of[of]) for rows, of in zip(parts, of_rows, strict=True)]
        )
        self.ends = np.cumsum([len(rows) for rows in parts])
        self.exact = [] if known is None else [_scored(known, group[firsts[-2] :])]

    def run(self) -> Candidates:
        """Exact prices of all that may enter the shortlist, best bound first (and of a few that then did not)."""
        priced: list[Candidates] = []
        left, count = np.arange(len(self.rows)), FIRST_BATCH
        while True:
            left = left[self.hopeful(left)]
            if not len(left) or (priced and self.screen.over()):
                return Candidates.concatenate(priced) if priced else no_candidates()
            chosen = self._next(left, count)
            priced.append(self._price(chosen))
            left = np.setdiff1d(left, chosen, assume_unique=True)
            count *= 2

    def hopeful(self, left: I64) -> Bool:
        """Which of the rows may still enter, given exact scores."""
        if not self.exact:
            return np.ones(len(left), dtype=bool)
        cut = cutoffs(Scored.concatenate(self.exact), self.size_of, self.screen.keeping)
        return margins(self.rows.take(left), cut, self.screen.keeping) <= 1 + SLACK

    def _next(self, left: I64, count: int) -> I64:
        """At most ``count`` rows that would enter or only just miss, if the bounds were the prices."""
        if len(left) <= count:
            return left
        rows, keeping = self.rows.take(left), self.screen.keeping
        margin = margins(rows, cutoffs(Scored.concatenate([*self.exact, rows]), self.size_of, keeping), keeping)
        first = np.argpartition(margin, count)[:count]
        return np.sort(left[first[margin[first] <= AHEAD]])

    def _price(self, chosen: I64) -> Candidates:
        rows = self.rows.take(chosen)
        candidates = self.screen.twin.screened(self.screen.request, written_out(self._parts(chosen)))
        exact = replace(rows, score=candidates.score, step_s=candidates.step_s)
        self.exact.append(replace(exact, raised=rows.raised / rows.score * candidates.score))
        return candidates

    def _parts(self, chosen: I64) -> list[Rows]:
        """The rows at ``chosen`` (ascending), part by part."""
        edges = np.searchsorted(chosen, [0, *self.ends])
        found = zip(self.parts, self.ends, edges[:-1], edges[1:], strict=True)
        return [rows.take(chosen[low:high] - (end - len(rows))) for rows, end, low, high in found if high > low]

    def _bounds(self, rows: Rows, group: I64, devices: I64) -> Scored:
        step_s, memory = rows.least_step_s, rows.memory_bytes
        score = objective_of(self.screen.request.objective, devices, step_s, memory)
        return Scored(
            score=score, raised=raised(score, rows.departures), step_s=step_s, memory_bytes=memory, group=group
        )


def _scored(candidates: Candidates, group: I64) -> Scored:
    return Scored(
        score=candidates.score, raised=raised(candidates.score, departures_of(candidates.batch)),
        step_s=candidates.step_s, memory_bytes=candidates.reserved_bytes, group=group,
    )  # fmt: skip


def distinct(parts: Sequence[Candidates]) -> Candidates:
    """All of them, each strategy once."""
    every = Candidates.concatenate(parts)
    return every.take(first_of_equals(every.batch))
