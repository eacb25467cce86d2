"""Prices of a study's trials in several processes, in the order asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from autodeploy.search.candidates import Candidates
from autodeploy.search.request import SearchRequest
from autodeploy.search.twin import Twin
from cost_models.strategies import StrategyBatch

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

_job: tuple[SearchRequest, Twin] | None = None
RETRIES = 2  # of a batch whose worker was killed


@contextmanager
def study_prices(request: SearchRequest, twin: Twin) -> Iterator[Callable[[StrategyBatch], Candidates]]:
    """``twin.screened``, spread over ``request.workers`` processes where several are asked for."""
    if request.workers in (None, 1):
        yield lambda batch: twin.screened(request, batch)
        return
    pool = _Pool(request, twin)
    try:
        yield pool.price
    finally:
        pool.close()


class _Pool:
    def __init__(self, request: SearchRequest, twin: Twin) -> None:
        self.request, self.twin, self.workers = request, twin, request.workers or 1
        self.executor = self._new()

    def _new(self) -> ProcessPoolExecutor:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context("spawn")  # a fork would copy the study's threads and connections
        return ProcessPoolExecutor(self.workers, context, _start, (self.request, self.twin))

    def price(self, batch: StrategyBatch) -> Candidates:
        from concurrent.futures.process import BrokenProcessPool

        parts = [part for part in np.array_split(np.arange(len(batch)), self.workers) if len(part)]
        for attempt in range(RETRIES + 1):
            try:
                return Candidates.concatenate(list(self.executor.map(_work, [batch.take(part) for part in parts])))
            except BrokenProcessPool:
                if attempt == RETRIES:
                    raise
                self.executor = self._new()
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        self.executor.shutdown(wait=False, cancel_futures=True)


def _start(request: SearchRequest, twin: Twin) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    global _job
    _job = (request, twin)


def _work(batch: StrategyBatch) -> Candidates:
    assert _job is not None, "the pool's initializer has not run"
    request, twin = _job
    return twin.screened(request, batch)
