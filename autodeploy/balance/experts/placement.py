"""Which expert each slot of each card holds, and what load that gives.

Axes, once for the package: L layers, E experts, G cards, N nodes, C slots of a card, S = G*C slots, T steps.
Loads are tokens routed to an expert; a replicated expert's tokens are split evenly over its copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodeploy.errors import InputError

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Cards of one expert-parallel group, numbered node by node."""

    nodes: int
    cards_per_node: int

    def __post_init__(self) -> None:
        for name in ("nodes", "cards_per_node"):
            if getattr(self, name) < 1:
                raise InputError(f"Topology.{name}", getattr(self, name), "a whole number > 0")

    @property
    def cards(self) -> int:
        return self.nodes * self.cards_per_node

    def node_of_card(self) -> I64:
        """Node index of every card [G]."""
        return np.repeat(np.arange(self.nodes), self.cards_per_node)


@dataclass(frozen=True, slots=True)
class Placement:
    """``slot_expert`` [L, G, C]: the expert held by each slot; ``experts`` is E."""

    slot_expert: I64
    experts: int

    def __post_init__(self) -> None:
        slots = self.slot_expert
        if slots.ndim != 3 or slots.size == 0:
            raise InputError("placement", slots.shape, "an array [layers, cards, slots per card]")
        if slots.min() < 0 or slots.max() >= self.experts:
            bad = int(slots.min() if slots.min() < 0 else slots.max())
            raise InputError("placement", bad, f"expert ids in 0..{self.experts - 1}")
        missing = np.argwhere(self.counts() == 0)
        if len(missing):
            layer, expert = missing[0]
            raise InputError(
                "placement",
                f"layer {layer} without expert {expert}",
                "every expert on at least one card",
                "give the expert a slot, or raise the slots per card",
            )

    @property
    def layers(self) -> int:
        return self.slot_expert.shape[0]

    @property
    def cards(self) -> int:
        return self.slot_expert.shape[1]

    @property
    def slots(self) -> int:
        return self.slot_expert.shape[1] * self.slot_expert.shape[2]

    def flat(self) -> I64:
        """Expert of each slot [L, S]; slot s lies on card s // C."""
        return self.slot_expert.reshape(self.layers, self.slots)

    def counts(self) -> I64:
        """Copies of each expert [L, E]."""
        return replica_counts(self.slot_expert.reshape(self.slot_expert.shape[0], -1), self.experts)

    def hosts(self) -> Bool:
        """Whether a card holds an expert [L, G, E]."""
        held = np.zeros((self.layers, self.cards, self.experts), dtype=bool)
        np.put_along_axis(held, self.slot_expert, True, axis=2)
        return held

    def duplicates(self) -> I64:
        """Slots of a card that repeat an expert it already holds, summed per layer [L]. Such memory balances nothing."""
        return self.slots - self.hosts().sum(axis=(1, 2))


def replica_counts(flat: I64, experts: int) -> I64:
    """Copies of each expert [L, E] in slots [L, S]."""
    layers = flat.shape[0]
    keys = flat + experts * np.arange(layers)[:, None]
    return np.bincount(keys.ravel(), minlength=layers * experts).reshape(layers, experts)


def card_loads(placement: Placement, loads: F64) -> F64:
    """Tokens per card [..., L, G] of expert loads [..., L, E]: an expert's load over its copies, summed by card."""
    shares = loads / placement.counts()
    layer = np.arange(placement.layers)[:, None]
    per_slot = shares[..., layer, placement.flat()]
    return per_slot.reshape(*loads.shape[:-1], placement.cards, -1).sum(axis=-1)


def max_over_mean(loads_by_card: F64) -> F64:
    """Largest card load over the mean [...] of card loads [..., G]; 1 where nothing is loaded."""
    mean = loads_by_card.mean(axis=-1)
    return np.where(mean > 0, loads_by_card.max(axis=-1) / np.where(mean > 0, mean, 1.0), 1.0)


def load_bound(loads: F64, cards: int, slots: int | None = None) -> F64:
    """No placement's largest card load [L] is below this, for loads [L, E].

    Without replicas max(mean, hottest + the lightest E/cards - 1), for its card is full too. With spare slots any
    expert may be split, at most over the spare copies and every card: max(mean, hottest / (1 + min(spare, cards - 1))).
    """
    experts = loads.shape[1]
    mean = loads.sum(axis=1) / cards
    spare = (slots or experts) - experts
    hottest = loads.max(axis=1)
    if spare:
        return np.maximum(mean, hottest / (1 + min(spare, cards - 1)))
    companions = np.sort(loads, axis=1)[:, : experts // cards - 1].sum(axis=1)
    return np.maximum(mean, hottest + companions)


def contiguous(layers: int, experts: int, cards: int, slots: int | None = None, nodes: int = 1) -> Placement:
    """The usual start: neighbouring experts on a card; spare slots hold evenly strided experts, none twice on a card.

    With ``nodes`` > 1 that divide cards and experts, the spare slots of a node repeat its own experts.
    """
    if nodes > 1 and cards % nodes == 0 and experts % nodes == 0:
        own = contiguous(1, experts // nodes, cards // nodes, None if slots is None else slots // nodes).slot_expert
        first = np.arange(nodes)[:, None, None] * (experts // nodes)
        return Placement(np.repeat((own + first).reshape(1, cards, -1), layers, axis=0), experts)
    per_card, total = check_slots(experts, cards, slots)
    home = np.arange(experts) * cards // experts
    slot_expert = np.full((cards, per_card), -1, dtype=np.int64)
    filled = np.zeros(cards, dtype=np.int64)
    for expert in range(experts):
        slot_expert[home[expert], filled[home[expert]]] = expert
        filled[home[expert]] += 1
    for i in range(total - experts):
        card = int(np.argmin(filled))
        wanted = (i * experts // (total - experts) + experts // 2) % experts
        free = [e for e in (np.arange(experts) + wanted) % experts if e not in slot_expert[card, : filled[card]]]
        slot_expert[card, filled[card]] = free[0] if free else wanted
        filled[card] += 1
    return Placement(np.repeat(slot_expert[None], layers, axis=0), experts)


def check_slots(experts: int, cards: int, slots: int | None) -> tuple[int, int]:
    """(slots per card, slots in all), or one clear error with the nearest slots that work."""
    total = experts if slots is None else slots
    fits = max(cards, -(-max(experts, total) // cards) * cards)
    if total % cards:
        raise InputError(
            "slots",
            total,
            f"a multiple of the {cards} cards",
            f"use {fits} slots ({fits - experts} redundant experts), or a number of cards that divides {total}",
        )
    if total < experts:
        raise InputError("slots", total, f"at least the {experts} experts", f"use {fits} slots")
    return total // cards, total
