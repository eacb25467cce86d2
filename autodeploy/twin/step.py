"""One strategy, simulated with its events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autodeploy.schedule import SimulationResult, simulate
from autodeploy.twin.bridge import step_request
from autodeploy.twin.groups import Group, TwinInput, groups_of
from autodeploy.twin.prices import price_table
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.strategies import F64, StrategyBatch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedStep:
    """`step_s`: the whole step; `result`: its pipeline, with events; `ep_rank_s` [P]: expert communication of each rank."""

    step_s: float
    group: Group
    result: SimulationResult
    ep_s: float
    masked_frac: float | None  # of the whole step; None: no expert communication
    steady_masked_frac: float | None


def simulate_strategy(
    model: ModelSpec, hardware: HardwareProfile, workload: Workload, batch: StrategyBatch, *, events: bool = True
) -> SimulatedStep:
    """Replays the step of a batch of one. ScheduleError where the simulator has no such schedule."""
    given = TwinInput(model=model, hardware=hardware, workload=workload)
    group = next(groups_of(batch, workload.global_batch))
    asked = step_request(given, price_table(model, hardware, workload, batch), group, events=events, layers=True)
    result = simulate(asked.request)
    masking = result.masking
    return SimulatedStep(
        step_s=float(asked.step_s(result.step_s)[0]),
        group=group,
        result=result,
        ep_s=float(masking.ep_s[0]) if masking else 0.0,
        masked_frac=_number(masking.masked_frac) if masking else None,
        steady_masked_frac=_number(masking.steady_masked_frac) if masking else None,
    )


def _number(values: F64) -> float | None:
    return None if np.isnan(values[0]) else float(values[0])
