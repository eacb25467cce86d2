"""Strategies priced as ``estimate`` prices them, each alone; a strategy that a rule excludes says so instead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autodeploy.errors import InputError
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import Strategy
from autodeploy.strategy.rules import check, rule_of
from cost_models.case import Case
from cost_models.strategies import StrategyBatch

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
    return price_all([strategy], setting)[0]


def price_all(strategies: Sequence[Strategy], setting: Setting) -> list[Priced]:
    """Each as if alone: those that can be run are priced and replayed together."""
    found = [_refused_or_batch(strategy, setting) for strategy in strategies]
    batches = [each for each in found if isinstance(each, StrategyBatch)]
    figures = iter(_figures(StrategyBatch.concatenate(batches), setting.case) if batches else ())
    return [
        Priced(strategy=strategy, **next(figures)) if isinstance(each, StrategyBatch) else each
        for strategy, each in zip(strategies, found, strict=True)
    ]


def _refused_or_batch(strategy: Strategy, setting: Setting) -> Priced | StrategyBatch:
    """The strategy as a batch of one, or what is wrong with it."""
    case = setting.case
    try:
        batch = strategy_to_batch(strategy, case.model, setting.devices, setting.backend, case.workload.global_batch)
    except InputError as error:
        return Priced(strategy=strategy, refused=str(error))
    code = int(check(case.model, case.hardware, case.workload, batch, setting.backend, devices=setting.devices)[0])
    rule = rule_of(code)
    return batch if rule is None else Priced(strategy=strategy, refused=rule.text)


def _figures(batch: StrategyBatch, case: Case) -> Iterator[dict[str, Any]]:
    """Step, peak and causes of every strategy of a batch."""
    from autodeploy.replay import simulated_step_s
    from autodeploy.report.entry import times_to
    from cost_models.step import evaluate

    cost, replayed = evaluate(case, batch), simulated_step_s(case, batch)
    for i, seconds in enumerate(replayed.tolist()):
        step_s = float(cost.step_s[i]) if math.isnan(seconds) else seconds
        times = times_to(step_s, {cause: float(each[i]) for cause, each in cost.time_s.items()})
        yield {
            "step_s": step_s,
            "peak_bytes": float(cost.peak_reserved_bytes[i]),
            "fits": bool(cost.feasible[i]),
            "time_s": {cause: each if abs(each) > ROUNDING_FRAC * step_s else 0.0 for cause, each in times.items()},
        }
