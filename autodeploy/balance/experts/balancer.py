"""The running balancer: observe each step, now and then decide, and remember whether the last plan kept its promise."""

from __future__ import annotations

import numpy as np

from autodeploy.balance.experts.choose import Choice, Task, Trigger, choose
from autodeploy.balance.experts.placement import F64, Placement, card_loads
from autodeploy.balance.experts.predict import Predictor

_MOST_CAUTION = 16.0


def horizon_ladder(horizon: int) -> tuple[int, ...]:
    """Horizons at which a plan may have to pay: the user's, and shorter ones for loads that do not last."""
    return tuple(sorted({max(1, horizon // 16), max(1, horizon // 4), horizon}))


class Balancer:
    """Holds a placement and changes it where that pays; ``observe`` then ``decide``."""

    def __init__(self, placement: Placement, task: Task, horizon: int, trigger: Trigger | None = None) -> None:
        self.placement = placement
        self.task = task
        self.trigger = trigger or Trigger()
        self.horizons = horizon_ladder(horizon)
        self.predictor = Predictor(placement.layers, placement.experts, self.horizons)
        self._before = placement  # what each layer's last plan replaced
        self._promised_s = np.zeros(placement.layers)  # per step; 0: nothing is on probation
        self._saved_s = np.zeros(placement.layers)  # since that plan
        self._age = np.zeros(placement.layers)
        self._term = np.ones(placement.layers)  # steps after which a promise is judged
        self._caution = np.ones(placement.layers)

    def observe(self, loads: F64) -> None:
        """One step's loads [L, E], under the present placement."""
        self.predictor.observe(loads)
        if self._promised_s.any():
            self._keep_accounts(loads)

    def _keep_accounts(self, loads: F64) -> None:
        """A plan that saves under half its promise doubles the layer's caution; one that keeps it eases it."""
        saved = card_loads(self._before, loads).max(axis=1) - card_loads(self.placement, loads).max(axis=1)
        self._saved_s += saved * self.task.seconds_per_token
        self._age += 1
        due = (self._promised_s > 0) & (self._age >= self._term)
        broken = due & (self._saved_s < 0.5 * self._promised_s * self._age)
        self._caution = np.where(broken, np.minimum(self._caution * 2, _MOST_CAUTION), self._caution)
        self._caution = np.where(due & ~broken, np.maximum(self._caution / 2, 1.0), self._caution)
        self._promised_s[due] = 0.0

    def decide(self) -> Choice:
        """The best choice per layer over all horizons; it becomes the present placement."""
        best: Choice | None = None
        term = np.ones(self.placement.layers)
        for horizon in self.horizons:
            forecast = self.predictor.forecast(horizon)
            if not forecast.trust.any():
                continue
            scenarios = self.predictor.scenarios(forecast)
            found = choose(self.placement, forecast.loads, scenarios, horizon, self.task, self.trigger, self._caution)
            better = found.net_s > (0 if best is None else best.net_s)
            term = np.where(better, horizon, term)
            best = found if best is None else _merge(best, found)
        if best is None:
            zero = np.zeros(self.placement.layers)
            return Choice(placement=self.placement, moved=zero > 0, saving_s=zero, cost_s=zero, net_s=zero)
        self._adopt(best, term)
        return best

    def _adopt(self, choice: Choice, term: F64) -> None:
        moved = choice.moved
        before = np.where(moved[:, None, None], self.placement.slot_expert, self._before.slot_expert)
        self._before = Placement(before, self.placement.experts)
        self._promised_s = np.where(moved, choice.saving_s, self._promised_s)
        self._term = np.where(moved, term, self._term)
        self._saved_s[moved] = 0.0
        self._age[moved] = 0.0
        self.placement = choice.placement


def _merge(a: Choice, b: Choice) -> Choice:
    """Per layer the choice with the larger net."""
    b_wins = b.net_s > a.net_s
    slot_expert = np.where(b_wins[:, None, None], b.placement.slot_expert, a.placement.slot_expert)
    return Choice(
        placement=Placement(slot_expert, a.placement.experts),
        moved=np.where(b_wins, b.moved, a.moved),
        saving_s=np.where(b_wins, b.saving_s, a.saving_s),
        cost_s=np.where(b_wins, b.cost_s, a.cost_s),
        net_s=np.where(b_wins, b.net_s, a.net_s),
    )
