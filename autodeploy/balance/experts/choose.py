"""Per layer: stay, or move to the placement whose saving over the horizon best pays for its migration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autodeploy.balance.experts.exchange import Rules, exchange
from autodeploy.balance.experts.migrate import Cost, Links, migration_cost, relabel
from autodeploy.balance.experts.nodes import is_strict
from autodeploy.balance.experts.place import hierarchical, place
from autodeploy.balance.experts.placement import F64, I64, Bool, Placement, Topology, card_loads, load_bound
from autodeploy.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is balanced, and what time costs."""

    topology: Topology
    links: Links
    seconds_per_token: float  # one token through one expert on one card, forward and backward
    groups: int = 1  # router groups kept whole on nodes; 1: none
    relaxed: bool = False  # with groups: copies beyond the first may leave their group's node

    def __post_init__(self) -> None:
        if not self.seconds_per_token > 0:
            raise InputError("seconds_per_token", self.seconds_per_token, "a number > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When a plan is carried out.

    Factors and saving were set by judgement before any run. ``least_trust`` was fitted on the traces it is reported on:
    without it the routing balanced by a bias, whose loads cannot be predicted, made moves. At 0.5 the routing without
    balancing (80 slots, 10 ms a card) ended 7% above the best fixed placement, at 0.35 5% above; 3% once the balancer's
    caution also decays.
    """

    intra_factor: float = 1.0  # a saving must be this many times the migration inside nodes
    inter_factor: float = 1.25  # and this many times that between nodes, which also disturbs others
    hysteresis: float = 1.5  # times the sum of both; grows for a layer whose last plan broke its promise
    least_saving_frac: float = 0.02  # of the mean card's time; smaller savings are noise
    least_trust: float = 0.35  # of a layer's forecast (0..1); below it the past does not tell the loads to come

    def __post_init__(self) -> None:
        for name in ("intra_factor", "inter_factor", "hysteresis", "least_saving_frac", "least_trust"):
            if not getattr(self, name) >= 0:
                raise InputError(f"Trigger.{name}", getattr(self, name), "a number >= 0")


CHOICE_FIELDS = ("moved", "saving_s", "cost_s", "demand_s", "net_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One candidate per layer, chosen or not; arrays [L]."""

    placement: Placement  # the old one on layers that stay
    moved: Bool
    saving_s: F64  # per step
    cost_s: F64
    demand_s: F64  # what the saving over the horizon must exceed, without the layer's caution
    net_s: F64  # saving over the horizon less the demand; 0 stays

    def merge(self, other: Choice) -> Choice:
        """Per layer the choice with the larger net; this one where they tie."""
        return self.where(~(other.net_s > self.net_s), other)

    def only(self, layers: Bool, placement: Placement) -> Choice:
        """This choice on ``layers`` [L], ``placement`` on the others."""
        return stay(placement).where(~layers, self)

    def joined(self, other: Choice) -> Choice:
        """Both, where no layer moves in both."""
        return other.where(other.moved, self)

    def where(self, keep: Bool, other: Choice) -> Choice:
        """This choice on the layers ``keep`` [L], ``other`` elsewhere."""
        slot_expert = np.where(keep[:, None, None], self.placement.slot_expert, other.placement.slot_expert)
        return Choice(
            placement=Placement(slot_expert, self.placement.experts),
            **{name: np.where(keep, getattr(self, name), getattr(other, name)) for name in CHOICE_FIELDS},
        )


def stay(placement: Placement) -> Choice:
    """No layer moves."""
    zero = np.zeros(placement.layers)
    return Choice(placement=placement, moved=zero > 0, saving_s=zero, cost_s=zero, demand_s=zero, net_s=zero)


def choose(
    old: Placement,
    expected: F64,
    scenarios: F64,
    steps: int,
    task: Task,
    trigger: Trigger,
    caution: F64 | None = None,
    certain: Bool | None = None,
) -> Choice:
    """Best candidate per layer for ``steps`` steps of loads that average ``expected`` [L, E].

    Savings are means over ``scenarios`` [K, L, E], so what noise takes away is taken away. ``caution`` [L] multiplies
    the demand. On layers ``certain`` [L] the demand is the price itself, and no saving is too small. Layers that
    could not pay for one move even if balanced perfectly, or stand at the bound
    already, are not tried.
    """
    peaks = card_loads(old, scenarios).max(axis=2).mean(axis=0)  # [L]
    mean = scenarios.sum(axis=2).mean(axis=0) / task.topology.cards
    caution = np.ones(old.layers) if caution is None else caution
    certain = np.zeros(old.layers, dtype=bool) if certain is None else certain
    hysteresis = np.where(certain, 1.0, trigger.hysteresis * caution)  # [L]
    least = np.where(certain, 0.0, trigger.least_saving_frac) * mean  # [L] tokens
    cheapest = min(trigger.intra_factor * task.links.intra_s(), trigger.inter_factor * task.links.inter_s())
    most_s = (peaks - mean) * task.seconds_per_token * steps
    bound = load_bound(expected, task.topology.cards, old.slots)
    above = np.minimum(peaks - mean, card_loads(old, expected).max(axis=1) - bound)
    hopeful = (most_s > hysteresis * cheapest) & (above > least)
    tried = np.flatnonzero(hopeful)
    if not len(tried):
        return stay(old)
    part = Placement(old.slot_expert[tried], old.experts)
    best = stay(part)
    for candidate in candidates(part, expected[tried], task):
        price = migration_cost(part, candidate, task.topology, task.links)
        gain = peaks[tried] - card_loads(candidate, scenarios[:, tried]).max(axis=2).mean(axis=0)
        gain = np.where(gain > least[tried], gain, 0.0) * task.seconds_per_token
        asked = np.where(certain[tried], price.seconds(), trigger.hysteresis * _demanded(price, trigger))
        careful = np.where(certain[tried], 1.0, caution[tried])
        worth = np.where(price.copies > 0, np.maximum(gain * steps - careful * asked, 0.0), 0.0)
        best = best.merge(
            Choice(
                placement=candidate, moved=worth > 0, saving_s=gain, cost_s=price.seconds(), demand_s=asked, net_s=worth
            )
        )
    return in_place(old, best, tried)


def in_place(old: Placement, part: Choice, tried: I64) -> Choice:
    """The choice for all layers, from that for the layers ``tried``."""
    whole = stay(old)
    fields = {}
    for name in CHOICE_FIELDS:
        fields[name] = getattr(whole, name).copy()
        fields[name][tried] = getattr(part, name)
    slot_expert = old.slot_expert.copy()
    slot_expert[tried] = part.placement.slot_expert
    return Choice(placement=Placement(slot_expert, old.experts), **fields)


def _demanded(price: Cost, trigger: Trigger) -> F64:
    return trigger.intra_factor * price.intra_s + trigger.inter_factor * price.inter_s


def candidates(old: Placement, expected: F64, task: Task) -> Iterator[Placement]:
    """Placements worth pricing, from few moves to many: exchanges inside nodes, exchanges anywhere, a new placement."""
    grouped = hierarchical(task.topology, task.groups, old.experts)
    node_of_card = task.topology.node_of_card()
    ladders: list[I64 | None] = [node_of_card] if grouped else [None]
    if grouped and not task.relaxed and not is_strict(old, task.topology, task.groups):
        ladders = []  # exchanges would keep the copies that are on the wrong node
    if task.topology.nodes > 1 and not grouped:
        ladders.insert(0, node_of_card)
    for inside in ladders:
        flat = old.flat()
        for steps in (1, 2, 5, 12):  # cumulative 1, 3, 8, 20
            rules = Rules(steps=steps, node_of_card=inside, recount=not grouped)
            flat, taken = exchange(flat, expected, task.topology.cards, rules)
            if not taken.any():
                break
            yield Placement(flat.reshape(old.slot_expert.shape), old.experts)
    fresh = place(expected, task.topology, old.slots, task.groups, relaxed=task.relaxed)
    yield relabel(fresh, old, task.topology, task.links, keep_nodes=grouped)
