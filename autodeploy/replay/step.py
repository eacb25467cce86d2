"""One strategy, simulated with its events."""

from __future__ import annotations

import numpy as np

from autodeploy.errors import InputError
from autodeploy.replay.groups import ReplayGroup, groups_of
from autodeploy.replay.request import step_request
from autodeploy.schedule import ScheduleError, SimulationResult, simulate
from cost_models.case import Case
from cost_models.records import record
from cost_models.strategies import F64, StrategyBatch


@record(eq=False)
class SimulatedStep:
    """`step_s`: the whole step; `result`: its pipeline, with events; `ep_s`: expert communication,
    summed over ranks."""

    step_s: float
    group: ReplayGroup
    result: SimulationResult
    ep_s: float
    ep_exposed_s: float
    masked_frac: float | None  # of the whole step; None: no expert communication
    steady_masked_frac: float | None


def simulate_strategy(case: Case, batch: StrategyBatch, *, events: bool = True) -> SimulatedStep:
    """Replays the step of a batch of one. InputError where the schedule cannot run in that shape."""
    group = next(groups_of(case, batch))
    asked = step_request(group, events=events, layers=True)
    try:
        result = simulate(asked.request)
    except ScheduleError as error:
        raise InputError(
            "STRATEGY", group.schedule.name, "a schedule that can run in this shape", str(error)
        ) from error
    masking, hidden = result.masking, float(asked.hidden_ep_s[0])
    left = float(masking.ep_s[0]) if masking else 0.0
    exposed = float(masking.exposed_s[0]) if masking else 0.0
    return SimulatedStep(
        step_s=float(asked.step_s(result.step_s)[0]),
        group=group,
        result=result,
        ep_s=left + hidden,
        ep_exposed_s=exposed,
        masked_frac=_share(1.0 - exposed / (left + hidden)) if left + hidden > 0 else None,
        steady_masked_frac=_number(masking.steady_masked_frac) if masking else None,
    )


def _number(values: F64) -> float | None:
    return None if np.isnan(values[0]) else _share(float(values[0]))


def _share(value: float) -> float:
    """Without the dust of summing in another order."""
    return min(max(round(value, 12), 0.0), 1.0)
