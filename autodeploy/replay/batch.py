"""Simulated step time of many strategies: the seam of the search. Those that share a graph are replayed as one batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autodeploy.replay.groups import groups_of
from autodeploy.replay.request import step_request
from autodeploy.schedule import SimulationRequest, simulated_s
from cost_models.case import Case
from cost_models.strategies import F64, StrategyBatch

# Beyond so many micro-batches a step is simulated at two lengths and carried on in a straight line: its steady phase
# repeats itself group by group.
MICRO_BATCHES_PER_RANK, MANY_SLOTS = 4, 3000


def simulated_step_s(case: Case, batch: StrategyBatch) -> F64:
    """Seconds of one step, [N]; nan where the simulator has no such schedule."""
    seconds = np.full(len(batch), np.nan)
    asked = [(group.rows, step_request(group)) for group in groups_of(case, batch)]
    lengths = [_lengths(step.request) for _, step in asked]
    requests = [_of_length(step.request, m) for (_, step), of in zip(asked, lengths, strict=True) for m in of]
    found = iter(simulated_s(requests))
    for (rows, step), of in zip(asked, lengths, strict=True):
        seconds[rows] = step.step_s(_carried_on(step.request.micro_batches, of, [next(found) for _ in of]))
    return seconds


def _lengths(request: SimulationRequest) -> tuple[int, ...]:
    """Micro-batches of the steps to simulate: all, or two lengths where there are very many."""
    m, period = request.micro_batches, request.shape().group_size
    shorter = MICRO_BATCHES_PER_RANK * max(request.pp, period)
    shorter += (m - shorter) % period
    longer = shorter + 2 * period
    return (m,) if m * request.pp * request.vpp <= MANY_SLOTS or longer >= m else (shorter, longer)


def _of_length(request: SimulationRequest, micro_batches: int) -> SimulationRequest:
    return request if micro_batches == request.micro_batches else replace(request, micro_batches=micro_batches)


def _carried_on(micro_batches: int, lengths: tuple[int, ...], seconds: list[F64]) -> F64:
    """The step of so many micro-batches: the straight line through two lengths."""
    if len(lengths) == 1:
        return seconds[0]
    (shorter, longer), (first, second) = lengths, seconds
    return np.asarray(first + (second - first) * (micro_batches - shorter) / (longer - shorter))
