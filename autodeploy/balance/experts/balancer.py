"""The running balancer: propose, confirm on loads the proposal has not seen, move, and remember how it went."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autodeploy.balance.experts.choose import Choice, Task, Trigger, choose, stay
from autodeploy.balance.experts.placement import F64, Bool, Placement, card_loads
from autodeploy.balance.experts.predict import Predictor

_MOST_CAUTION = 16.0
_KEPT = 0.5  # a promise counts as kept from this share on


def horizon_ladder(horizon: int) -> tuple[int, ...]:
    """Horizons at which a plan may have to pay: the user's, and shorter ones for loads that do not last."""
    return tuple(sorted({max(1, horizon // 16), max(1, horizon // 4), horizon}))


@dataclass(slots=True)
class _Trial:
    """What placement ``other`` would save against ``base`` on the loads seen since; arrays [L]."""

    base: Placement
    other: Placement
    promised_s: F64  # per step; 0: this layer is not on trial
    saved_s: F64 = field(init=False)
    steps: F64 = field(init=False)

    def __post_init__(self) -> None:
        self.saved_s = np.zeros(self.base.layers)
        self.steps = np.zeros(self.base.layers)

    def observe(self, loads: F64, seconds_per_token: float) -> None:
        """Count one step of loads [L, E]."""
        if self.promised_s.any():
            saved = card_loads(self.base, loads).max(axis=1) - card_loads(self.other, loads).max(axis=1)
            self.saved_s += saved * seconds_per_token
            self.steps += 1

    def mean_s(self) -> F64:
        """Seconds saved per step [L]."""
        return self.saved_s / np.maximum(self.steps, 1)

    def kept(self) -> Bool:
        """Layers on trial that save at least half of what was promised [L]."""
        return (self.promised_s > 0) & (self.mean_s() >= _KEPT * self.promised_s)


class Balancer:
    """Holds a placement and changes it where that pays: ``observe`` every step, ``decide`` now and then."""

    def __init__(self, placement: Placement, task: Task, horizon: int, trigger: Trigger | None = None) -> None:
        self.placement = placement
        self.task = task
        self.trigger = trigger or Trigger()
        self.horizons = horizon_ladder(horizon)
        self.predictor = Predictor(placement.layers, placement.experts, self.horizons)
        self.caution = np.ones(placement.layers)  # [L] multiplies the demand
        self._proposal = stay(placement)
        self.term = np.ones(placement.layers)  # [L] steps over which the proposal, then the plan, is to pay
        self._ahead = _Trial(placement, placement, np.zeros(placement.layers))  # the proposal against the present
        self._behind = _Trial(placement, placement, np.zeros(placement.layers))  # the present against what it replaced

    def observe(self, loads: F64) -> None:
        """One step's loads [L, E], under the present placement."""
        self.predictor.observe(loads)
        self._ahead.observe(loads, self.task.seconds_per_token)
        self._behind.observe(loads, self.task.seconds_per_token)
        self._judge()

    def _judge(self) -> None:
        """A plan that breaks its promise over its term doubles the layer's caution; one that keeps it halves it."""
        trial = self._behind
        self.caution = np.maximum(self.caution * 0.5 ** (1 / self.horizons[-1]), 1.0)  # forgets half in a horizon
        due = (trial.promised_s > 0) & (trial.steps >= self.term)
        if due.any():
            factor = np.where(due, np.where(trial.kept(), 0.5, 2.0), 1.0)
            self.caution = np.clip(self.caution * factor, 1.0, _MOST_CAUTION)
            trial.promised_s = np.where(due, 0.0, trial.promised_s)

    def decide(self) -> Choice:
        """Carry out what the last decision proposed and the steps since confirmed; propose anew for the other layers."""
        done = self._confirmed()
        if done.moved.any():
            self._adopt(done)
        self._propose(~done.moved)
        return done

    def _confirmed(self) -> Choice:
        """The proposal, on the layers where it still pays at the saving measured since it was made."""
        asked, measured = self._proposal, self._ahead.mean_s()
        moved = self._ahead.kept() & (measured * self.term > asked.demand_s * self.caution) & (self._ahead.steps > 0)
        slot_expert = np.where(moved[:, None, None], asked.placement.slot_expert, self.placement.slot_expert)
        return Choice(
            placement=Placement(slot_expert, self.placement.experts),
            moved=moved,
            saving_s=np.where(moved, np.minimum(measured, asked.saving_s), 0.0),
            cost_s=np.where(moved, asked.cost_s, 0.0),
            demand_s=np.where(moved, asked.demand_s, 0.0),
            net_s=np.where(moved, asked.net_s, 0.0),
        )

    def _adopt(self, choice: Choice) -> None:
        moved, trial = choice.moved, self._behind
        base = np.where(moved[:, None, None], self.placement.slot_expert, trial.base.slot_expert)
        self._behind = _Trial(
            Placement(base, self.placement.experts),
            choice.placement,
            np.where(moved, choice.saving_s, trial.promised_s),
        )
        self._behind.saved_s = np.where(moved, 0.0, trial.saved_s)
        self._behind.steps = np.where(moved, 0.0, trial.steps)
        self.placement = choice.placement

    def _propose(self, layers: Bool) -> None:
        """Look for the best choice of each layer over all horizons; layers that just moved wait a turn."""
        best = stay(self.placement)
        term = np.ones(self.placement.layers)
        for horizon in self.horizons:
            forecast = self.predictor.forecast(horizon)
            trusted = forecast.trust >= self.trigger.least_trust
            if not trusted.any():
                continue
            scenarios = self.predictor.scenarios(forecast)
            caution = np.where(trusted, self.caution, np.inf)
            found = choose(self.placement, forecast.loads, scenarios, horizon, self.task, self.trigger, caution)
            term = np.where(found.net_s > best.net_s, horizon, term)
            best = best.merge(found)
        self._proposal = best
        self.term = np.where(self._behind.promised_s > 0, self.term, term)
        self._ahead = _Trial(self.placement, best.placement, np.where(layers, best.saving_s, 0.0))
