"""Screening: the whole space, in bounded memory. Bounds first and prices for what can still matter; or, where there are no
bounds or every price is asked for, all of it through the closed form."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from autodeploy.search.bounded import BoundedScreen
from autodeploy.search.candidates import Candidates, price
from autodeploy.search.leaders import SIMULATED
from autodeploy.search.request import Progress, SearchRequest
from autodeploy.search.shortlist import Keeping, Shortlist, shorten
from autodeploy.search.space import Sized, WalkCounts, chunks, plans
from autodeploy.search.twin import Twin
from autodeploy.search.workers import Pool, priced_in_pool, workers_for
from cost_models.strategies import StrategyBatch

REFINED = 64  # strategies kept whatever their group, to be moved around

OnPriced = Callable[[Candidates], None]


@dataclass(frozen=True, slots=True, eq=False)
class Screened:
    shortlist: Shortlist | None  # None: the space is empty
    counts: WalkCounts
    seconds: float
    timed_out: bool
    interrupted: bool = False  # by Ctrl-C: what was found until then counts


def screen(
    request: SearchRequest,
    twin: Twin,
    *,
    deadline: float | None = None,
    progress: Progress | None = None,
    on_priced: OnPriced | None = None,
) -> Screened:
    """Keeps a shortlist of the space. ``on_priced`` sees every strategy priced (the list of what does not fit)."""
    began = time.monotonic()
    run = _Run(request, twin, deadline, progress)
    try:
        run.collect(run.expanded(on_priced) if _all_priced(request, twin, on_priced) else run.bounded())
    except KeyboardInterrupt:  # what was found until then is ranked; where there is nothing, there is nothing to rank
        if run.shortlist is None:
            raise
        run.interrupted = True
    if run.interrupted and run.shortlist is None:
        raise KeyboardInterrupt
    return Screened(run.shortlist, run.counts, time.monotonic() - began, run.timed_out, run.interrupted)


def keeping_of(request: SearchRequest) -> Keeping:
    """All that may be shown, replayed or refined."""
    return Keeping(
        top=max(request.top, REFINED), groups=max(request.top, SIMULATED), cap_bytes=request.hardware.usable_bytes,
        safe_bytes=request.safe_bytes, misses=request.keep_oversized,
    )  # fmt: skip


def _all_priced(request: SearchRequest, twin: Twin, on_priced: OnPriced | None) -> bool:
    return on_priced is not None or request.audit or twin.bounds is None or twin.laddered is None


class _Run:
    """One screen: what it has found so far."""

    def __init__(self, request: SearchRequest, twin: Twin, deadline: float | None, progress: Progress | None) -> None:
        self.request, self.twin, self.deadline, self.progress = request, twin, deadline, progress
        self.keeping, self.counts = keeping_of(request), WalkCounts()
        self.shortlist: Shortlist | None = None
        self.timed_out = self.interrupted = False

    def over(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def tell(self, screened: int) -> None:
        if self.progress:
            self.progress("screening", screened, None)

    def collect(self, parts: Iterator[Shortlist]) -> None:
        for part in parts:
            self.shortlist = part if self.shortlist is None else self.shortlist.merge(part, self.keeping)
            self.tell(self.shortlist.screened)

    def expanded(self, on_priced: OnPriced | None) -> Iterator[Shortlist]:
        """Shortlists of batches written out and priced in full."""
        walk = chunks(self.twin.space, self.request, self.counts)
        workers = 1 if on_priced is not None else self.request.workers or 1
        parts = (
            self._priced(walk, on_priced)
            if workers == 1
            else priced_in_pool(walk, self.request, self.twin, self.keeping, workers)
        )
        for part in parts:
            yield part
            if self.over():
                self.timed_out = True
                break

    def _priced(self, walk: Iterator[StrategyBatch], on_priced: OnPriced | None) -> Iterator[Shortlist]:
        for batch in walk:
            candidates = price(self.request, batch, self.twin.price or self.twin.evaluate)
            if on_priced is not None:
                on_priced(candidates)
            yield shorten(candidates, self.keeping)

    def bounded(self) -> Iterator[Shortlist]:
        """Shortlists of windows of the space, bounded first."""
        assert self.twin.laddered is not None
        walk = plans(self.twin.laddered(self.request), self.request, self.counts)
        first = next(walk)
        workers = workers_for(self.request, *first)
        walk = chain([first], walk)
        return self._alone(walk) if workers == 1 else self._together(walk, workers)

    def _alone(self, walk: Iterator[Sized]) -> Iterator[Shortlist]:
        screen = BoundedScreen(self.request, self.twin, self.keeping, self.over)
        try:
            for part, counts in (plan.part(i) for _, plan in walk for i in range(len(plan))):
                self.counts.add(counts)
                yield from filter(None, [screen.add(part)])
                self.tell(screen.screened)
                if self.over():
                    self.timed_out = True
                    break
        except KeyboardInterrupt:
            self.interrupted = True
        yield from filter(None, [screen.flush()])

    def _together(self, walk: Iterator[Sized], workers: int) -> Iterator[Shortlist]:
        with Pool(self.request, self.twin, self.keeping, workers, self.deadline) as pool:
            try:
                for found in pool.shortlists(walk):
                    self.counts.add(found.counts)
                    self.timed_out |= found.stopped
                    yield from filter(None, found.shortlists)
            except KeyboardInterrupt:
                self.interrupted = True
                for found in pool.stop():
                    self.counts.add(found.counts)
                    yield from filter(None, found.shortlists)
