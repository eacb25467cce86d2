"""How the tokens of a replicated expert are divided over its copies: evenly, by fixed shares, or anew every step.

A step's best division is a linear program: least largest card load such that every expert's tokens go to its copies
(deepseek-ai/LPLB solves it on the card). Its solution of least squares is the same for the peak: the loads that cards can
be given form the base of a polymatroid, where the point of least norm is also lexicographically least (Fujishige, Math.
Oper. Res. 5, 1980). So one expert after another fills its copies' cards to a common level, like water, until nothing
flows; experts that share no card fill at the same time, and all layers and steps together.
Axes besides the package's: M experts of one class, m copies of each (padded), B = L*G cards of all layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autodeploy.balance.experts.placement import F64, I64, Placement, card_loads
from autodeploy.errors import InputError

SHARES = ("even", "fixed", "step")
_SWEEPS = 400
_FLOW = 1e-4  # of the mean card load: a sweep that moves less ends the filling


@dataclass(frozen=True, slots=True)
class _Class:
    """Replicated experts with one number of copies that share no card."""

    expert: I64  # [M] in 0..L*E-1
    slot: I64  # [M, m] in 0..L*S-1
    card: I64  # [M, m] in 0..L*G-1


class Graph:
    """The copies of a placement, coloured once: experts of one colour share no card."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        layers, slots = placement.layers, placement.slots
        offset = placement.experts * np.arange(layers)[:, None]
        self.slot_expert = (placement.flat() + offset).ravel()  # [L*S]
        self.slot_card = np.arange(layers * slots) // (slots // placement.cards)
        self.copies = np.bincount(self.slot_expert, minlength=layers * placement.experts)
        kept = np.unique(self.slot_expert * (layers * placement.cards) + self.slot_card, return_index=True)[1]
        places = np.bincount(self.slot_expert[kept], minlength=len(self.copies))  # cards that hold the expert
        self.start = np.zeros(layers * slots)  # share of each slot at first: a second copy on one card takes nothing
        self.start[kept] = 1.0 / places[self.slot_expert[kept]]
        self.classes = _colour(kept, self.slot_expert, self.slot_card, places)

    def cards_of(self, per_slot: F64) -> F64:
        """Loads [T, B] of tokens per slot [T, L*S]."""
        return per_slot.reshape(len(per_slot), self.placement.layers * self.placement.cards, -1).sum(axis=2)

    def even(self, loads: F64) -> F64:
        """Tokens per slot [T, L*S] of flat loads [T, L*E], split evenly over the cards that hold the expert."""
        return loads[:, self.slot_expert] * self.start


def _colour(kept: I64, slot_expert: I64, slot_card: I64, copies: I64) -> list[_Class]:
    """Classes of the slots ``kept``, one a card and expert, in the order of experts; ``copies`` [L*E] of them."""
    order = kept[np.argsort(slot_expert[kept], kind="stable")]
    first = np.cumsum(copies) - copies
    taken: dict[int, int] = {}  # card: bits of the colours on it
    members: dict[tuple[int, int], list[int]] = {}
    replicated = np.flatnonzero(copies > 1)
    for expert in replicated[np.argsort(-copies[replicated], kind="stable")].tolist():
        cards = slot_card[order[first[expert] : first[expert] + copies[expert]]].tolist()
        used = 0
        for card in cards:
            used |= taken.get(card, 0)
        colour = (~used & (used + 1)).bit_length() - 1
        for card in cards:
            taken[card] = taken.get(card, 0) | 1 << colour
        members.setdefault((colour, int(copies[expert])), []).append(expert)
    classes = []
    for _, count in sorted(members):
        expert = np.array(members[_, count])
        slot = order[first[expert][:, None] + np.arange(count)]
        classes.append(_Class(expert, slot, slot_card[slot]))
    return classes


def _filled(floor: F64, poured: F64) -> F64:
    """What each place takes [..., m] when ``poured`` [..., 1] fills places of height ``floor`` [..., m] to one level."""
    rising = np.sort(floor, axis=-1)
    level = ((poured + np.cumsum(rising, axis=-1)) / np.arange(1, floor.shape[-1] + 1)).min(axis=-1, keepdims=True)
    return np.maximum(level - floor, 0.0)


def split_step(placement: Placement, loads: F64, graph: Graph | None = None) -> F64:
    """Tokens per slot [T, L, S] that make every step's largest card load least, for loads [T, L, E]."""
    graph = graph or Graph(placement)
    flat = loads.reshape(len(loads), -1)
    tokens = graph.even(flat)
    card = graph.cards_of(tokens)
    stop = _FLOW * max(float(card.mean()), 1e-300)
    for _ in range(_SWEEPS):
        flow = 0.0
        for part in graph.classes:
            before = tokens[:, part.slot]
            after = _filled(card[:, part.card] - before, flat[:, part.expert, None])
            tokens[:, part.slot] = after
            card[:, part.card] += after - before
            flow = max(flow, float(np.abs(after - before).max(initial=0.0)))
        if flow <= stop:
            break
    return tokens.reshape(len(loads), placement.layers, placement.slots)


def fixed_fractions(placement: Placement, loads: F64, graph: Graph | None = None) -> F64:
    """Share of its expert's tokens that each slot takes in every step [L, S], from samples of loads [K, L, E].

    Least mean square of the card loads: means and covariances count, a card that is hot when the expert is gets less.
    A layer whose expected peak that does not lower keeps even shares.
    """
    graph = graph or Graph(placement)
    flat = loads.reshape(len(loads), -1)
    fractions = graph.start.copy()
    card = graph.cards_of(flat[:, graph.slot_expert] * fractions)
    square = (flat**2).mean(axis=0)
    for _ in range(_SWEEPS):
        flow = 0.0
        for part in graph.classes:
            own, before = flat[:, part.expert, None], fractions[part.slot]
            others = card[:, part.card] - own * before
            together = (others * own).mean(axis=0)
            power = square[part.expert, None]
            loaded = power > 0
            after = np.where(loaded, _filled(together / np.where(loaded, power, 1.0), np.ones_like(power)), before)
            fractions[part.slot] = after
            card[:, part.card] += own * (after - before)
            flow = max(flow, float(np.abs(after - before).max(initial=0.0)))
        if flow <= _FLOW:
            break
    fixed = fractions.reshape(placement.layers, placement.slots)
    even = (1.0 / graph.copies)[graph.slot_expert].reshape(fixed.shape)
    better = _expected_peak(placement, loads, fixed) < _expected_peak(placement, loads, even)
    return np.where(better[:, None], fixed, even)


def _expected_peak(placement: Placement, loads: F64, fractions: F64) -> F64:
    return shared_card_loads(placement, loads, "fixed", fractions).max(axis=2).mean(axis=0)


def shared_card_loads(placement: Placement, loads: F64, shares: str = "even", fractions: F64 | None = None) -> F64:
    """Tokens per card [T, L, G] of loads [T, L, E] under one of ``SHARES``; "fixed" needs ``fractions`` [L, S]."""
    if shares == "even":
        return card_loads(placement, loads)
    if shares == "step":
        per_slot = split_step(placement, loads)
    elif shares == "fixed" and fractions is not None:
        layer = np.arange(placement.layers)[:, None]
        per_slot = loads[:, layer, placement.flat()] * fractions
    else:
        raise InputError("shares", shares, "even, fixed or step", "fixed needs fractions")
    return per_slot.reshape(len(loads), placement.layers, placement.cards, -1).sum(axis=3)
