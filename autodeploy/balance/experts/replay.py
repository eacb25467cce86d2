"""Run a load history through several policies and count what each loses: exposed time and migrations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autodeploy.balance.experts.balancer import Balancer
from autodeploy.balance.experts.choose import Task, Trigger
from autodeploy.balance.experts.eplb import eplb_style
from autodeploy.balance.experts.migrate import migration_cost, relabel
from autodeploy.balance.experts.place import hierarchical
from autodeploy.balance.experts.placement import F64, Bool, Placement, card_loads, max_over_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """What one policy made of a history of T steps and L layers."""

    policy: str
    max_over_mean: F64  # [T, L]
    exposed_s: float  # (largest - mean card load) x seconds per token, summed over steps and layers
    migration_s: float
    moved_bytes: float
    moved_copies: int
    plans: int  # layer plans carried out
    placement: Placement  # at the end
    work_s: float  # mean card's time, the same for every policy

    @property
    def total_s(self) -> float:
        """Time lost: exposed and migration."""
        return self.exposed_s + self.migration_s


class Ledger:
    """Adds up what a policy loses while a replay goes on."""

    def __init__(self, policy: str, task: Task) -> None:
        self.policy, self.task = policy, task
        self._peaks: list[F64] = []
        self._means: list[F64] = []
        self._migration_s = self._moved_bytes = 0.0
        self._copies = self._plans = 0

    def step(self, placement: Placement, loads: F64) -> None:
        """One or more steps of loads [..., L, E] under ``placement``."""
        cards = card_loads(placement, loads).reshape(-1, placement.layers, placement.cards)
        self._peaks.extend(cards.max(axis=2))
        self._means.extend(cards.mean(axis=2))

    def migrate(self, old: Placement, new: Placement) -> None:
        """Pay for turning ``old`` into ``new``; layers migrate one after the other."""
        price = migration_cost(old, new, self.task.topology, self.task.links)
        self._migration_s += float(price.seconds().sum())
        self._moved_bytes += float(price.moved_bytes.sum())
        self._copies += int(price.copies.sum())
        self._plans += int((price.copies > 0).sum())

    def result(self, placement: Placement) -> PolicyResult:
        """The sums, with the placement at the end."""
        peaks, means = np.array(self._peaks), np.array(self._means)
        loaded: Bool = means > 0
        rate = self.task.seconds_per_token
        return PolicyResult(
            policy=self.policy,
            max_over_mean=np.where(loaded, peaks / np.where(loaded, means, 1.0), 1.0),
            exposed_s=float((peaks - means).sum() * rate),
            migration_s=self._migration_s,
            moved_bytes=self._moved_bytes,
            moved_copies=self._copies,
            plans=self._plans,
            placement=placement,
            work_s=float(means.sum() * rate),
        )


def replay_static(history: F64, placement: Placement, task: Task) -> PolicyResult:
    """Nothing ever moves."""
    ledger = Ledger("static", task)
    ledger.step(placement, history)
    return ledger.result(placement)


def replay_fixed(history: F64, start: Placement, fixed: Placement, task: Task, name: str = "fixed") -> PolicyResult:
    """One migration before the first step, then nothing."""
    ledger = Ledger(name, task)
    ledger.migrate(start, fixed)
    ledger.step(fixed, history)
    return ledger.result(fixed)


def replay_eplb(history: F64, placement: Placement, task: Task, interval: int) -> PolicyResult:
    """EPLB style: every ``interval`` steps a new placement for the sum of loads since the last, whatever it costs.

    Cards are renumbered so that as little as can be moves, as for our own plans.
    """
    ledger = Ledger("eplb_style", task)
    for start in range(0, len(history), interval):
        if start:
            window = history[start - interval : start].sum(axis=0)
            fresh = eplb_style(window, task.topology, placement.slots, task.groups)
            grouped = hierarchical(task.topology, task.groups, placement.experts)
            fresh = relabel(fresh, placement, task.topology, task.links, keep_nodes=grouped)
            ledger.migrate(placement, fresh)
            placement = fresh
        ledger.step(placement, history[start : start + interval])
    return ledger.result(placement)


def replay_ours(
    history: F64, placement: Placement, task: Task, horizon: int, check: int = 0, trigger: Trigger | None = None
) -> PolicyResult:
    """Predict, and move where it pays; a decision every ``check`` steps (0: a sixteenth of the horizon).

    One after the second step too: loads that did not change need no further evidence.
    """
    check = check or max(1, horizon // 16)
    ledger = Ledger("ours", task)
    balancer = Balancer(placement, task, horizon, trigger)
    for step, loads in enumerate(history):
        ledger.step(balancer.placement, loads)
        balancer.observe(loads)
        if ((step + 1) % check == 0 or step == 1) and step + 1 < len(history):
            before = balancer.placement
            if balancer.decide().moved.any():
                ledger.migrate(before, balancer.placement)
    return ledger.result(balancer.placement)


def replay(
    history: F64, placement: Placement, task: Task, horizon: int, interval: int = 0, trigger: Trigger | None = None
) -> dict[str, PolicyResult]:
    """Static, EPLB style every ``interval`` steps (0: the horizon) and ours, by policy."""
    results = (
        replay_static(history, placement, task),
        replay_eplb(history, placement, task, interval or horizon),
        replay_ours(history, placement, task, horizon, trigger=trigger),
    )
    return {result.policy: result for result in results}


def mean_max_over_mean(result: PolicyResult, start: int = 0) -> float:
    """Mean of max/mean over layers and steps from ``start`` on."""
    return float(result.max_over_mean[start:].mean())


__all__ = [
    "Ledger",
    "PolicyResult",
    "max_over_mean",
    "mean_max_over_mean",
    "replay",
    "replay_eplb",
    "replay_fixed",
    "replay_ours",
    "replay_static",
]
