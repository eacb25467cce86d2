"""The running balancer: propose, confirm on loads the proposal has not seen, move, and remember how it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autodeploy.balance.experts.choose import CHOICE_FIELDS, Choice, Task, Trigger, choose, in_place, stay
from autodeploy.balance.experts.placement import F64, I64, Bool, Placement
from autodeploy.balance.experts.predict import Predictor

_MOST_CAUTION = 16.0
_ALIKE = 1e-3
_KNOWN = ("loads", "slot_expert")
_KEPT = 0.5  # a promise counts as kept from this share on


def horizon_ladder(horizon: int) -> tuple[int, ...]:
    """Horizons at which a plan may have to pay: the user's, and shorter ones for loads that do not last."""
    return tuple(sorted({max(1, horizon // 16), max(1, horizon // 4), horizon}))


class Peaks:
    """Largest card load [L] of a placement for loads [L, E], looked up every step: what it needs is kept."""

    def __init__(self, placement: Placement) -> None:
        first = placement.experts * np.arange(placement.layers)[:, None, None]
        self._index = placement.slot_expert + first
        self._share = (1.0 / placement.counts()).ravel()[self._index]

    def __call__(self, loads: F64) -> F64:
        tokens: F64 = (loads.ravel()[self._index] * self._share).sum(axis=2).max(axis=1)
        return tokens


@dataclass(slots=True)
class _Trial:
    """What placement ``other`` would save against ``base`` on the loads seen since; arrays [L]."""

    base: Placement
    other: Placement
    promised_s: F64  # per step; 0: this layer is not on trial
    saved_s: F64 = field(init=False)
    steps: F64 = field(init=False)
    _peaks_of_base: Peaks = field(init=False)
    _peaks_of_other: Peaks = field(init=False)

    def __post_init__(self) -> None:
        self.saved_s = np.zeros(self.base.layers)
        self.steps = np.zeros(self.base.layers)
        self._peaks_of_base, self._peaks_of_other = Peaks(self.base), Peaks(self.other)

    def observe(self, loads: F64, seconds_per_token: float) -> None:
        """Count one step of loads [L, E]."""
        if self.promised_s.any():
            saved = self._peaks_of_base(loads) - self._peaks_of_other(loads)
            self.saved_s += saved * seconds_per_token
            self.steps += 1

    def state(self) -> dict[str, Any]:
        """As arrays."""
        placements = {"base": self.base.slot_expert, "other": self.other.slot_expert}
        return placements | {name: getattr(self, name) for name in ("promised_s", "saved_s", "steps")}

    @classmethod
    def loaded(cls, state: Mapping[str, Any], experts: int) -> _Trial:
        """From what ``state`` gave."""
        trial = cls(Placement(state["base"], experts), Placement(state["other"], experts), state["promised_s"])
        trial.saved_s, trial.steps = state["saved_s"], state["steps"]
        return trial

    def mean_s(self) -> F64:
        """Seconds saved per step [L]."""
        return self.saved_s / np.maximum(self.steps, 1)

    def kept(self) -> Bool:
        """Layers on trial that save at least half of what was promised [L]."""
        return (self.promised_s > 0) & (self.mean_s() >= _KEPT * self.promised_s)


@dataclass(frozen=True, slots=True)
class _Known:
    """Loads [L, E] for which nothing was found to pay from the slots [L, G, C]; nan: nothing is known."""

    loads: F64
    slot_expert: I64

    def covers(self, loads: F64, placement: Placement) -> Bool:
        """Layers [L] where looking again would find nothing again: loads alike to a thousandth, slots the same."""
        near = np.abs(loads - self.loads) <= _ALIKE * loads.mean(axis=1, keepdims=True)
        return near.all(axis=1) & (placement.slot_expert == self.slot_expert).all(axis=(1, 2))

    def after(self, tried: Bool, loads: F64, placement: Placement, found: Choice) -> _Known:
        """With what the layers ``tried`` [L] taught."""
        told = np.where(found.moved[:, None], np.nan, loads)
        return _Known(
            np.where(tried[:, None], told, self.loads),
            np.where(tried[:, None, None], placement.slot_expert, self.slot_expert),
        )


class Balancer:
    """Holds a placement and changes it where that pays: ``observe`` every step, ``decide`` now and then."""

    def __init__(self, placement: Placement, task: Task, horizon: int, trigger: Trigger | None = None) -> None:
        self.placement = placement
        self.task = task
        self.trigger = trigger or Trigger()
        self.horizons = horizon_ladder(horizon)
        nothing = _Known(np.full((placement.layers, placement.experts), np.nan), placement.slot_expert)
        self._known = dict.fromkeys(self.horizons, nothing)
        self.predictor = Predictor(placement.layers, placement.experts, self.horizons)
        self.caution = np.ones(placement.layers)  # [L] multiplies the demand
        self._proposal = stay(placement)
        self._sure = np.zeros(placement.layers, dtype=bool)  # [L] proposals that need no confirmation
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

    def decide(self, longest_only: bool = False) -> Choice:
        """Carry out what the last decision proposed and the steps since confirmed; propose anew for the other layers.

        Where loads are as good as constant, the new proposal is carried out at once. ``longest_only`` looks at the longest
        horizon that can be foretold on some layer instead of at all.
        """
        done = self._confirmed()
        if done.moved.any():
            self._adopt(done)
        self.propose(~done.moved, longest_only)
        sure = self._sure & ~done.moved & self._proposal.moved
        if sure.any():
            at_once = self._proposal.only(sure, self.placement)
            self._adopt(at_once)
            self._ahead.promised_s = np.where(sure, 0.0, self._ahead.promised_s)
            done = done.joined(at_once)
        return done

    def confirm(self) -> Choice:
        """Carry out what was proposed and the steps since confirmed; look for nothing new."""
        done = self._confirmed()
        if done.moved.any():
            self._adopt(done)
            self._ahead.promised_s = np.where(done.moved, 0.0, self._ahead.promised_s)
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

    def propose(self, layers: Bool | None = None, longest_only: bool = False) -> None:
        """Look for the best choice of each layer over all horizons; only ``layers`` (all) are proposed."""
        layers = np.ones(self.placement.layers, dtype=bool) if layers is None else layers
        sure = np.zeros(self.placement.layers, dtype=bool)
        best = stay(self.placement)
        term = np.ones(self.placement.layers)
        for horizon in reversed(self.horizons) if longest_only else self.horizons:
            forecast = self.predictor.forecast(horizon)
            trusted = forecast.trust >= self.trigger.least_trust
            if not trusted.any():
                continue
            known = self._known[horizon].covers(forecast.loads, self.placement)
            if not (trusted & ~known).any():
                continue
            scenarios = self.predictor.scenarios(forecast)
            caution = np.where(trusted, self.caution, np.inf)
            certain = forecast.steady
            found = self._choose(~known, forecast.loads, scenarios, horizon, caution, certain)
            learnt = certain & ~known  # elsewhere a caution that fades may let pay what did not
            self._known[horizon] = self._known[horizon].after(learnt, forecast.loads, self.placement, found)
            better = found.net_s > best.net_s
            term, sure = np.where(better, horizon, term), np.where(better, certain, sure)
            best = best.merge(found)
            if longest_only:
                break
        self._proposal, self._sure = best, sure
        self.term = np.where(self._behind.promised_s > 0, self.term, term)
        self._ahead = _Trial(self.placement, best.placement, np.where(layers, best.saving_s, 0.0))

    def _choose(self, layers: Bool, loads: F64, scenarios: F64, horizon: int, caution: F64, certain: Bool) -> Choice:
        """``choose`` on some of the layers [L]; the others stay."""
        old = Placement(self.placement.slot_expert[layers], self.placement.experts)
        part = choose(
            old, loads[layers], scenarios[:, layers], horizon, self.task, self.trigger, caution[layers], certain[layers]
        )
        return in_place(self.placement, part, np.flatnonzero(layers))

    def state(self) -> dict[str, Any]:
        """All that changes while it runs, as arrays; keys of parts are joined with a dot."""
        known = {f"known.{h}.{name}": getattr(k, name) for h, k in self._known.items() for name in _KNOWN}
        trials = {
            f"{part}.{name}": value
            for part, trial in (("ahead", self._ahead), ("behind", self._behind))
            for name, value in trial.state().items()
        }
        proposal = {f"proposal.{name}": getattr(self._proposal, name) for name in CHOICE_FIELDS}
        return {
            "placement": self.placement.slot_expert,
            "caution": self.caution,
            "term": self.term,
            "sure": self._sure,
            "proposal.placement": self._proposal.placement.slot_expert,
            **proposal,
            **trials,
            **known,
            **{f"predictor.{name}": value for name, value in self.predictor.state().items()},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over what ``state`` gave."""
        experts = self.placement.experts
        part = {
            name: {
                key.removeprefix(f"{name}."): np.array(value)
                for key, value in state.items()
                if key.startswith(f"{name}.")
            }
            for name in ("ahead", "behind", "predictor", "proposal")
        }
        self.placement = Placement(np.array(state["placement"]), experts)
        self.caution, self.term, self._sure = (np.array(state[name]) for name in ("caution", "term", "sure"))
        fields = {name: part["proposal"][name] for name in CHOICE_FIELDS}
        self._proposal = Choice(placement=Placement(part["proposal"]["placement"], experts), **fields)
        self._ahead, self._behind = (_Trial.loaded(part[name], experts) for name in ("ahead", "behind"))
        self._known = {h: _Known(*(np.array(state[f"known.{h}.{name}"]) for name in _KNOWN)) for h in self.horizons}
        self.predictor.load(part["predictor"])
