"""`simulate`: one training step of a batch of strategies, event by event; `simulated_s`: seconds alone, of many batches.

Two levels, both exact. Slots are priced once per kind as max-plus matrices and the whole step is replayed slot by slot
for all scenarios at once; where events are asked for, every segment is replayed from the state its slot found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.batches import join, take
from autodeploy.schedule.events import with_events
from autodeploy.schedule.operations import ScheduleError
from autodeploy.schedule.outcome import make_result
from autodeploy.schedule.request import SimulationRequest, SimulationResult
from autodeploy.schedule.ways import Chosen, fastest
from autodeploy.schedule.work import Work, work_of, works_of

F64 = NDArray[np.float64]


def simulate(request: SimulationRequest) -> SimulationResult:
    """Step time, bubble, lanes, memory and masked all-to-all of each scenario of `request`."""
    works, parts = works_of(request)
    results = [_of_ways(work, chosen) for work, chosen in zip(works, fastest(works), strict=True)]
    return results[0] if len(results) == 1 else join(results, parts)


def simulated_s(requests: Sequence[SimulationRequest]) -> list[F64]:
    """Seconds of the step of each scenario of each request, nan where no order runs the shape."""
    seconds = [np.full(request.scenarios, np.nan) for request in requests]
    works: list[Work] = []
    found: list[tuple[F64, NDArray[np.int64]]] = []
    for request, out in zip(requests, seconds, strict=True):
        try:
            own, parts = works_of(request)
        except ScheduleError:
            continue
        works += own
        found += [(out, at) for at in parts]
    for (out, at), chosen in zip(found, fastest(works), strict=True):
        for part in chosen:
            out[at[part.rows]] = part.step_s
    return seconds


def _of_ways(work: Work, chosen: list[Chosen]) -> SimulationResult:
    """The result of scenarios of one request, each in its fastest way."""
    results = [_of_way(work, part) for part in chosen]
    return results[0] if len(results) == 1 else join(results, [part.rows for part in chosen])


def _of_way(work: Work, chosen: Chosen) -> SimulationResult:
    count = work.request.scenarios
    own = work if len(chosen.rows) == count else work_of(take(work.request, chosen.rows))
    request, graph, ends_s = own.request, own.graphs[chosen.ends], (chosen.end_s, chosen.start_s)
    busy = own.busy_s(own.templates(chosen.entry))[own.slot_of[chosen.ends]]
    result = replace(
        make_result(request, graph, busy, *ends_s),
        lane_order=(chosen.entry or "none",) * request.scenarios,
        ends=(own.ends[chosen.ends],) * request.scenarios,
    )
    return with_events(result, own, chosen.ends, chosen.entry, ends_s) if request.keep_events else result
