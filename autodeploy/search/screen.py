"""Screening: the whole space through the closed form, in batches, in bounded memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autodeploy.search.candidates import Candidates, price
from autodeploy.search.request import Evaluate, Progress, SearchRequest
from autodeploy.search.shortlist import Shortlist, shorten
from autodeploy.search.space import WalkCounts, chunks
from autodeploy.search.twin import Twin
from cost_models.strategies import StrategyBatch

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
    """Prices every strategy and keeps a shortlist. ``on_priced`` sees every batch (the list of what does not fit)."""
    began = time.monotonic()
    counts = WalkCounts()
    keep = kept(request)
    shortlist: Shortlist | None = None
    timed_out = interrupted = False
    walk = chunks(twin.space, request, counts)
    try:
        for part in _priced(walk, request, twin.evaluate, keep, on_priced):
            shortlist = part if shortlist is None else shortlist.merge(part, keep)
            if progress:
                progress("screening", shortlist.priced, None)
            if deadline is not None and time.monotonic() > deadline:
                timed_out = True
                break
    except KeyboardInterrupt:  # what was found until then is ranked; where there is nothing, there is nothing to rank
        if shortlist is None:
            raise
        interrupted = True
    return Screened(shortlist, counts, time.monotonic() - began, timed_out, interrupted)


def kept(request: SearchRequest) -> int:
    """Strategies kept whatever their group: all that may be shown, or refined."""
    return max(request.top, 64)


def _priced(
    walk: Iterator[StrategyBatch], request: SearchRequest, evaluate: Evaluate, keep: int, on_priced: OnPriced | None
) -> Iterator[Shortlist]:
    if request.workers == 1 or on_priced is not None:
        for batch in walk:
            candidates = price(request, batch, evaluate)
            if on_priced is not None:
                on_priced(candidates)
            yield shorten(candidates, keep, request.hardware.usable_bytes, request.safe_bytes)
    else:
        yield from _priced_in_pool(walk, request, evaluate, keep)


# ------------------------------------------------------------------------------------------- process pool

_job: tuple[SearchRequest, Evaluate, int] | None = None


def _start(request: SearchRequest, evaluate: Evaluate, keep: int) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ranks what it has
    global _job
    _job = (request, evaluate, keep)


def _work(batch: StrategyBatch) -> Shortlist:
    assert _job is not None, "the pool's initializer has not run"
    request, evaluate, keep = _job
    return shorten(price(request, batch, evaluate), keep, request.hardware.usable_bytes, request.safe_bytes)


def _priced_in_pool(
    walk: Iterator[StrategyBatch], request: SearchRequest, evaluate: Evaluate, keep: int
) -> Iterator[Shortlist]:
    """Shortlists in the order of the walk, so that the result does not depend on the number of workers."""
    from concurrent.futures import Future, ProcessPoolExecutor

    with ProcessPoolExecutor(request.workers, initializer=_start, initargs=(request, evaluate, keep)) as pool:
        waiting: deque[Future[Shortlist]] = deque()
        try:
            for batch in walk:
                waiting.append(pool.submit(_work, batch))
                if len(waiting) > 2 * request.workers:  # bounds what is in flight, and so the memory
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
