"""A migration plan from a load history: what to move now, what it costs and what it saves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autodeploy.balance.experts.balancer import Balancer, horizon_ladder
from autodeploy.balance.experts.choose import Choice, Task, Trigger, choose
from autodeploy.balance.experts.migrate import Cost, Move, list_moves, migration_cost
from autodeploy.balance.experts.placement import F64, Bool, Placement
from autodeploy.balance.experts.predict import FILTERS
from autodeploy.balance.experts.validate import check_loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Arrays are [L]; layers that stay have zero saving and cost."""

    before: Placement
    after: Placement
    expected: F64  # [L, E] tokens per step the plan is made for
    recent: F64  # [K, L, E] the latest steps, as they were
    moved: Bool
    saving_s: F64  # per step
    term: F64  # steps [L] for which the forecast can be trusted to last, at most the horizon
    cost: Cost
    moves: list[Move]
    prediction: dict[str, object]  # filter, trust and error by layer; empty for a single step
    reason: str

    def total_saving_s(self) -> float:
        """Net seconds over each layer's term, after the migration."""
        return float((self.saving_s * self.term).sum() - self.cost.seconds().sum())


def make_plan(history: F64, before: Placement, task: Task, horizon: int, trigger: Trigger | None = None) -> Plan:
    """The plan for the ``horizon`` steps after ``history`` [T, L, E].

    With several steps: a proposal from all but the last few, carried out on the layers where those few confirm it. A
    single step is taken at its word: nothing can be said of whether it lasts.
    """
    history = check_loads(history, dimensions=3)
    trigger = trigger or Trigger()
    if len(history) == 1:
        choice = choose(before, history[0], history, horizon, task, trigger)
        reason = "one step of loads, taken as lasting" if choice.moved.any() else "no move pays over the horizon"
        term = np.full(before.layers, float(horizon))
        return _plan(before, choice, history[0], history, term, task, {}, reason)
    balancer = Balancer(before, task, horizon, trigger)
    unseen = max(1, min(len(history) // 4, horizon // 16))
    for loads in history[:-unseen]:
        balancer.observe(loads)
    balancer.propose()
    for loads in history[-unseen:]:
        balancer.observe(loads)
    choice = balancer.decide()
    told = _longest_told(balancer, len(history))
    forecast = balancer.predictor.forecast(told)
    prediction: dict[str, object] = {
        "horizon": told,
        "filter": [list(FILTERS)[i] for i in forecast.filter_index],
        "trust": forecast.trust,
        "error_frac": forecast.error_frac,
        "naive_error_frac": forecast.naive_error_frac,
    }
    reason = _reason(choice, forecast.trust, trigger)
    return _plan(before, choice, forecast.loads, history[-horizon:], balancer.term, task, prediction, reason)


def _plan(
    before: Placement,
    choice: Choice,
    expected: F64,
    recent: F64,
    term: F64,
    task: Task,
    prediction: dict[str, object],
    reason: str,
) -> Plan:
    return Plan(
        before=before,
        after=choice.placement,
        expected=expected,
        recent=recent,
        moved=choice.moved,
        saving_s=np.where(choice.moved, choice.saving_s, 0.0),
        term=term,
        cost=migration_cost(before, choice.placement, task.topology, task.links),
        moves=list_moves(before, choice.placement, task.topology, task.links),
        prediction=prediction,
        reason=reason,
    )


def _longest_told(balancer: Balancer, steps: int) -> int:
    """The longest horizon of which the history has shown a whole block; else the shortest."""
    ladder = horizon_ladder(balancer.horizons[-1])
    return max((h for h in ladder if h < steps), default=ladder[0])


def _reason(choice: Choice, trust: F64, trigger: Trigger) -> str:
    if choice.moved.any():
        return f"{int(choice.moved.sum())} of {len(trust)} layers pay for their moves"
    if not (trust >= trigger.least_trust).any():
        return "past loads do not predict those to come (trust below the threshold on every layer): nothing moves"
    return "no move pays over the horizon"
