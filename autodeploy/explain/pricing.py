"""Strategies priced as ``estimate`` prices them, each alone; a strategy that a rule excludes says so instead."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from autodeploy.errors import InputError
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import Strategy
from autodeploy.strategy.rules import check, rule_of
from cost_models.case import Case

GIB = 2**30
ROUNDING_FRAC = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A case on a number of cards under a back end."""

    case: Case
    devices: int
    backend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """``refused``: why the strategy cannot be run; the figures are then zero."""

    strategy: Strategy
    refused: str = ""
    step_s: float = 0.0
    peak_bytes: float = 0.0
    fits: bool = False
    time_s: Mapping[str, float] = field(default_factory=dict)


def price(strategy: Strategy, setting: Setting) -> Priced:
    """One strategy by the cost models and the replay."""
    from autodeploy.replay import simulated_step_s
    from autodeploy.report.entry import times_to
    from cost_models.step import evaluate

    case = setting.case
    try:
        batch = strategy_to_batch(strategy, case.model, setting.devices, setting.backend, case.workload.global_batch)
    except InputError as error:
        return Priced(strategy=strategy, refused=str(error))
    code = int(check(case.model, case.hardware, case.workload, batch, setting.backend, devices=setting.devices)[0])
    rule = rule_of(code)
    if rule is not None:
        return Priced(strategy=strategy, refused=rule.text)
    cost = evaluate(case, batch)
    replayed = float(simulated_step_s(case, batch)[0])
    step_s = float(cost.step_s[0]) if math.isnan(replayed) else replayed
    times = times_to(step_s, {cause: float(seconds[0]) for cause, seconds in cost.time_s.items()})
    return Priced(
        strategy=strategy, step_s=step_s, peak_bytes=float(cost.peak_reserved_bytes[0]), fits=bool(cost.feasible[0]),
        time_s={cause: seconds if abs(seconds) > ROUNDING_FRAC * step_s else 0.0 for cause, seconds in times.items()},
    )  # fmt: skip
