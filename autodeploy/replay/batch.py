"""Simulated step time of many strategies: the seam of the search. Those that share a graph are replayed as one batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autodeploy.replay.groups import groups_of
from autodeploy.replay.request import step_request
from autodeploy.schedule import ScheduleError, SimulationRequest, simulate
from cost_models.case import Case
from cost_models.strategies import F64, StrategyBatch

# Beyond so many micro-batches a step is simulated at two lengths and carried on in a straight line: its steady phase
# repeats itself group by group.
MICRO_BATCHES_PER_RANK, MANY_SLOTS = 4, 3000


def simulated_step_s(case: Case, batch: StrategyBatch) -> F64:
    """Seconds of one step, [N]; nan where the simulator has no such schedule."""
    seconds = np.full(len(batch), np.nan)
    for group in groups_of(case, batch):
        asked = step_request(group)
        try:
            seconds[group.rows] = asked.step_s(_simulated_s(asked.request))
        except ScheduleError:
            continue
    return seconds


def _simulated_s(request: SimulationRequest) -> F64:
    """The step, or its straight-line continuation where it has very many micro-batches."""
    m, period = request.micro_batches, request.shape().group_size
    shorter = MICRO_BATCHES_PER_RANK * max(request.pp, period)
    shorter += (m - shorter) % period
    longer = shorter + 2 * period
    if m * request.pp * request.vpp <= MANY_SLOTS or longer >= m:
        return simulate(request).step_s
    first, second = (simulate(replace(request, micro_batches=n)).step_s for n in (shorter, longer))
    return first + (second - first) * (m - shorter) / (longer - shorter)
