"""Takes scenarios out of a request, and puts results of parts of a batch together."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.costs import LayerSegments
from autodeploy.schedule.request import SimulationRequest, SimulationResult

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def take(request: SimulationRequest, chosen: I64) -> SimulationRequest:
    """The same request for the scenarios `chosen`."""
    count = request.scenarios

    def part(value: Any) -> Any:
        per_scenario = isinstance(value, np.ndarray) and value.ndim > 0 and value.shape[0] == count
        return value[chosen] if per_scenario else value

    def parts_of(record: Any) -> Any:
        return replace(record, **{f.name: part(getattr(record, f.name)) for f in fields(record)})

    costs = request.costs
    return replace(
        request,
        costs=LayerSegments(seconds=part(costs.seconds)) if isinstance(costs, LayerSegments) else parts_of(costs),
        p2p_s=part(request.p2p_s),
        pair_saving_frac=part(request.pair_saving_frac),
        tail=parts_of(request.tail),
        memory=parts_of(request.memory) if request.memory else None,
    )


def join(results: list[SimulationResult], where: list[I64]) -> SimulationResult:
    """One result of the parts; `where[k]` are the places of part k. Events and masking do not outlive a split."""
    count = sum(len(at) for at in where)
    joined: dict[str, Any] = {"events": None, "masking": None}
    for f in fields(SimulationResult):
        values = [getattr(result, f.name) for result in results]
        if f.name in joined or values[0] is None:
            continue
        if f.name == "in_flight_chunks":
            joined[f.name] = np.max(values, axis=0)
        elif isinstance(values[0], tuple):
            names = [""] * count
            for value, at in zip(values, where, strict=True):
                for i, n in enumerate(at):
                    names[n] = value[i]
            joined[f.name] = tuple(names)
        else:
            out = np.empty((count, *values[0].shape[1:]), dtype=values[0].dtype)
            for value, at in zip(values, where, strict=True):
                out[at] = value
            joined[f.name] = out
    return replace(results[0], **joined)


def rows(result: SimulationResult, chosen: I64) -> SimulationResult:
    """The result of some scenarios, without events and masking."""
    picked: dict[str, Any] = {"events": None, "masking": None}
    for f in fields(SimulationResult):
        value = getattr(result, f.name)
        if f.name in (*picked, "in_flight_chunks") or value is None:
            continue
        picked[f.name] = tuple(value[n] for n in chosen) if isinstance(value, tuple) else value[chosen]
    return replace(result, **picked)
