"""Screening in several processes. What is found does not depend on their number.

A worker is told which parts of which plan are its own, and makes the plan itself: little is sent, and what this process has
loaded is there in a forked worker.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from autodeploy.search.bounded import BoundedScreen
from autodeploy.search.candidates import price
from autodeploy.search.request import SearchRequest
from autodeploy.search.shortlist import Keeping, Shortlist, shorten
from autodeploy.search.space import PART, Plan, Sized
from autodeploy.search.twin import Twin
from autodeploy.strategy.plan import SpaceCounts
from cost_models.strategies import StrategyBatch

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

WORTH_A_PROCESS = 500_000  # strategies expected for each process that is started unasked: some two seconds of one
TASK = 1 << 20  # strategies of one task at most: what a worker's window holds


def workers_for(request: SearchRequest, sizes: Sequence[int], plan: Plan) -> int:
    """As many as asked for; else as the cores allow and the space is worth, going by the plan of its first sizes."""
    if request.workers is not None:
        return request.workers
    expected = plan.most * len(request.devices) // max(len(sizes), 1)
    return max(1, min(_cores(), expected // WORTH_A_PROCESS))


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


# ------------------------------------------------------------------------------------------- inside a worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Of one task. ``stopped``: before its end, by the clock."""

    shortlists: list[Shortlist | None]
    counts: SpaceCounts
    stopped: bool = False


@dataclass(slots=True, kw_only=True)
class _Job:
    """What every worker is given; and what it keeps from task to task."""

    request: SearchRequest
    twin: Twin
    keeping: Keeping
    deadline: float | None = None
    stop: Any = None  # an event: set when nobody waits for more
    screen: BoundedScreen | None = None
    space: Any = None
    plan: tuple[tuple[int, ...], Plan] | None = field(default=None)

    def over(self) -> bool:
        late = self.deadline is not None and time.monotonic() > self.deadline
        return late or (self.stop is not None and self.stop.is_set())


_job: _Job | None = None


def _start(job: _Job) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ranks what it has
    global _job
    _job = job


def _bounded(sizes: tuple[int, ...], mine: range) -> Found:
    """The parts ``mine`` of the plan of ``sizes``."""
    assert _job is not None and _job.twin.laddered is not None, "the pool's initializer has not run"
    if _job.screen is None:
        _job.screen = BoundedScreen(_job.request, _job.twin, _job.keeping, _job.over)
        _job.space = _job.twin.laddered(_job.request)
    if _job.plan is None or _job.plan[0] != sizes:
        _job.plan = sizes, _job.space.plan(sizes, PART)
    counts, found, stopped = SpaceCounts(), [], False
    for i in mine:
        part, more = _job.plan[1].part(i)
        counts.add(more)
        found.append(_job.screen.add(part))
        stopped = _job.over()
        if stopped:
            break
    return Found(shortlists=[*found, _job.screen.flush()], counts=counts, stopped=stopped)


def _priced(batch: StrategyBatch) -> Shortlist:
    assert _job is not None, "the pool's initializer has not run"
    return shorten(price(_job.request, batch, _job.twin.price or _job.twin.evaluate), _job.keeping)


# ------------------------------------------------------------------------------------------- in the parent


def _executor(job: _Job, workers: int, context: Any = None) -> ProcessPoolExecutor:
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(workers, context, _start, (job,))


class Pool:
    """Workers that bound and price the parts of plans."""

    def __init__(
        self, request: SearchRequest, twin: Twin, keeping: Keeping, workers: int, deadline: float | None
    ) -> None:
        import multiprocessing

        context = multiprocessing.get_context()
        self.workers, self._stop = workers, context.Event()
        job = _Job(request=request, twin=twin, keeping=keeping, deadline=deadline, stop=self._stop)
        self._executor = _executor(job, workers, context)
        self._waiting: deque[Future[Found]] = deque()

    def shortlists(self, walk: Iterator[Sized]) -> Iterator[Found]:
        """Task by task, in the order of the walk; no further once a task was stopped by the clock."""
        for sizes, mine in self._tasks(walk):
            self._waiting.append(self._executor.submit(_bounded, sizes, mine))
            if len(self._waiting) > 2 * self.workers:  # bounds what is in flight
                found = self._waiting.popleft().result()
                yield found
                if found.stopped:
                    yield from self.stop()
                    return
        while self._waiting:
            yield self._waiting.popleft().result()

    def stop(self) -> list[Found]:
        """Ends the tasks at the next part; what those under way have found."""
        self._stop.set()
        begun = [future for future in self._waiting if not future.cancel()]
        self._waiting.clear()
        return [future.result() for future in begun]

    def _tasks(self, walk: Iterator[Sized]) -> Iterator[tuple[tuple[int, ...], range]]:
        """Every so-many-th part, so that the tasks of a plan take equally long."""
        for sizes, plan in walk:
            tasks = min(len(plan), max(self.workers, -(-plan.most // TASK)))
            yield from ((sizes, range(i, len(plan), tasks)) for i in range(tasks))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._executor.shutdown(cancel_futures=True)


def priced_in_pool(
    walk: Iterator[StrategyBatch], request: SearchRequest, twin: Twin, keeping: Keeping, workers: int
) -> Iterator[Shortlist]:
    """Shortlists of batches written out, in the order of the walk."""
    with _executor(_Job(request=request, twin=twin, keeping=keeping), workers) as pool:
        waiting: deque[Future[Shortlist]] = deque()
        try:
            for batch in walk:
                waiting.append(pool.submit(_priced, batch))
                if len(waiting) > 2 * workers:  # bounds what is in flight, and so the memory
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
