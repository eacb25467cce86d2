"""Simulated step time of many strategies: the seam of the search. Those that share a graph are replayed as one batch."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from autodeploy.replay.groups import groups_of
from autodeploy.replay.request import step_request
from autodeploy.schedule import SimulationRequest, simulated_s
from cost_models.case import Case
from cost_models.strategies import F64, StrategyBatch

# Beyond so many micro-batches a step is simulated at two lengths and carried on in a straight line: its steady phase
# repeats itself group by group.
MICRO_BATCHES_PER_RANK, MANY_SLOTS = 4, 3000
MOST_KEPT = 50_000  # steps that a case remembers: some 30 MB


def simulated_step_s(case: Case, batch: StrategyBatch) -> F64:
    """Seconds of one step, [N]; nan where the simulator has no such schedule. What was asked before is not replayed again."""
    names = _identities(batch)
    first = {name: row for row, name in reversed(list(enumerate(names)))}
    new = sorted(row for name, row in first.items() if name not in case.replayed_s)
    if len(case.replayed_s) + len(new) > MOST_KEPT:
        case.replayed_s.clear()
        new = sorted(first.values())
    if new:
        seconds = _replayed_s(case, batch.take(np.array(new)))
        case.replayed_s.update(zip((names[row] for row in new), seconds.tolist(), strict=True))
    return np.array([case.replayed_s[name] for name in names])


def _identities(batch: StrategyBatch) -> list[bytes]:
    """What tells the strategies of a case apart, [N]: every axis, and the layers on each stage."""
    axes = [f.name for f in fields(StrategyBatch) if f.name not in ("layout", "layouts")]
    values = np.stack([getattr(batch, name).astype(np.float64) for name in axes], axis=1)
    layouts = [layout.counts.tobytes() for layout in batch.layouts]
    return [row.tobytes() + layouts[layout] for row, layout in zip(values, batch.layout.tolist(), strict=True)]


def _replayed_s(case: Case, batch: StrategyBatch) -> F64:
    """All groups of the batch at once."""
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
