"""Exchange for the expected maximum: slots change where that lowers the mean, over past steps, of the largest card load.

The largest load of the mean step is below the mean of the largest loads: what swings apart belongs together, and an
expert that swings deserves copies. Samples carry means and covariances as they were; none is estimated.
Axes besides the package's: K samples (steps).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autodeploy.balance.experts.place import POLISH, hierarchical, place
from autodeploy.balance.experts.placement import F64, I64, Bool, Placement, Topology, replica_counts

_NEVER = 1e300
_GAIN = 1e-5  # smallest relative gain that counts
_CELLS = 2_000_000  # numbers held at a time by one neighbourhood


@dataclass(frozen=True, kw_only=True)
class Search:
    """How far the exchange looks."""

    steps: int = 60  # moves of a layer at most
    hot_cards: int = 4  # cards from which a slot may leave, the most often hottest first
    takers: int = 12  # experts that may gain a copy
    givers: int = 24  # slots that may lose one
    recount: bool = True
    node_of_card: I64 | None = None  # [G]; set: nothing leaves its node


SPREADS = (0.0, 1.0)  # starts: placements for the mean load plus this many standard deviations
_MOST_SAMPLES = 100
_WORK = 4_000_000  # cells of one neighbourhood over all layers; fewer samples where layers, cards and slots are many


def place_expected(
    history: F64, topology: Topology, slots: int | None = None, groups: int = 1, *, relaxed: bool = False
) -> Placement:
    """Placement [L, G, C] with a small expected largest card load, for past steps [T, L, E]; modes as in ``place``."""
    mean, spread = history.mean(axis=0), history.std(axis=0)
    if len(history) == 1 or not spread.any():
        return place(mean, topology, slots, groups, relaxed=relaxed)
    rules = replace(POLISH, fillers=False)  # copies of swinging experts are worth more than fillers
    placed = [place(mean + k * spread, topology, slots, groups, rules, relaxed=relaxed) for k in SPREADS]
    placed += [place(mean, topology, slots, groups, relaxed=relaxed)]
    grouped = hierarchical(topology, groups, history.shape[2])
    shape = placed[0].slot_expert.shape
    cells = shape[0] * shape[1] * shape[2] ** 2
    samples = spaced(history, max(16, min(_MOST_SAMPLES, _WORK // cells)))
    large = topology.cards > 64
    search = Search(
        node_of_card=topology.node_of_card() if grouped else None,
        takers=4 if large else Search.takers,
        givers=8 if large else Search.givers,
    )
    found = np.stack([exchange_expected(p.flat(), samples, topology.cards, search) for p in placed])
    peaks = np.stack([expected_peak(flat, samples, topology.cards) for flat in found])
    return Placement(found[peaks.argmin(axis=0), np.arange(shape[0])].reshape(shape), placed[0].experts)


def spaced(history: F64, samples: int) -> F64:
    """At most ``samples`` evenly spaced steps [K, L, E] of a history [T, L, E], the last among them."""
    picked = np.unique(np.linspace(len(history) - 1, 0, min(samples, len(history))).round().astype(int))
    return history[picked]


def expected_peak(flat: I64, samples: F64, cards: int) -> F64:
    """Mean over samples [K, L, E] of the largest card load [L] of slots [L, S]."""
    return np.array(
        [_card_loads(flat[layer], samples[:, layer], cards).max(axis=1).mean() for layer in range(len(flat))]
    )


def exchange_expected(flat: I64, samples: F64, cards: int, search: Search | None = None) -> I64:
    """Slots [L, S] improved for samples [K, L, E]; the expected peak of a layer never rises."""
    search = search or Search()
    result = flat.copy()
    for layer in range(len(flat)):
        result[layer] = _Layer(result[layer], np.ascontiguousarray(samples[:, layer]), cards, search).improved()
    return result


def _card_loads(slots: I64, loads: F64, cards: int) -> F64:
    """Loads [K, G] of one layer's slots [S] for loads [K, E]."""
    shares = (loads / np.bincount(slots, minlength=loads.shape[1]))[:, slots]
    return shares.reshape(len(loads), cards, -1).sum(axis=2)


class _Layer:
    """One layer under exchange: slots [S], loads [K, E]."""

    def __init__(self, slots: I64, loads: F64, cards: int, search: Search) -> None:
        self.slots, self.loads, self.cards, self.search = slots.copy(), loads, cards, search
        self.width = len(slots) // cards
        self.card_of_slot = np.arange(len(slots)) // self.width
        self._refresh()

    def _refresh(self) -> None:
        self.copies = replica_counts(self.slots[None], self.loads.shape[1])[0]
        self.share = (self.loads / self.copies)[:, self.slots]  # [K, S]
        self.card = self.share.reshape(len(self.loads), self.cards, -1).sum(axis=2)  # [K, G]
        self.peak = float(self.card.max(axis=1).mean())
        self.held = np.zeros((self.cards, self.loads.shape[1]), dtype=bool)
        self.held[self.card_of_slot, self.slots] = True

    def improved(self) -> I64:
        """The slots after the last move that helps."""
        for _ in range(self.search.steps):
            if not (self._swap() or (self.search.recount and self._recount())):
                break
            self._refresh()
        return self.slots

    def _swap(self) -> bool:
        """The best swap of a slot on the card most often hottest, else on the next; whether one helps."""
        weight = np.bincount(self.card.argmax(axis=1), minlength=self.cards)
        for hot in np.argsort(-weight, kind="stable")[: self.search.hot_cards]:
            if not weight[hot]:
                return False
            value, own = self._swap_values(int(hot))
            best = int(value.argmin())
            if value.flat[best] < self.peak * (1 - _GAIN):
                a, b = own[best // len(self.slots)], best % len(self.slots)
                self.slots[a], self.slots[b] = self.slots[b], self.slots[a]
                return True
        return False

    def _swap_values(self, hot: int) -> tuple[F64, I64]:
        """(expected peak after swapping own slot c with slot s [C, S], own slots [C]) for the card ``hot``."""
        own = np.arange(hot * self.width, (hot + 1) * self.width)
        barred = self._barred(hot, own)
        value = np.full(barred.shape, _NEVER)
        rest = self._peak_without(hot)  # [K, G]
        step = max(1, _CELLS // (len(self.loads) * self.width))
        for first in range(0, len(self.slots), step):
            part = slice(first, first + step)
            there = self.card_of_slot[part]
            shed = self.share[:, own, None] - self.share[:, None, part]
            after = np.maximum(self.card[:, hot, None, None] - shed, self.card[:, None, there] + shed)
            value[:, part] = np.maximum(after, rest[:, None, there]).mean(axis=0)
        return np.where(barred, _NEVER, value), own

    def _barred(self, hot: int, own: I64) -> Bool:
        """Swaps [C, S] that would repeat an expert on a card, stay on it, or leave the node."""
        barred = self.held[self.card_of_slot][:, self.slots[own]].T | self.held[hot, self.slots]
        barred |= self.card_of_slot == hot
        node = self.search.node_of_card
        return barred if node is None else barred | (node[self.card_of_slot] != node[hot])

    def _peak_without(self, hot: int) -> F64:
        """Largest load among the cards other than ``hot`` and g [K, G]."""
        others = self.card.copy()
        others[:, hot] = -1.0
        first = others.argmax(axis=1)
        rows = np.arange(len(others))
        largest = others[rows, first]
        others[rows, first] = -1.0
        second = others.max(axis=1)
        rest = np.repeat(largest[:, None], self.cards, axis=1)
        rest[rows, first] = second
        return rest

    def _recount(self) -> bool:
        """The best slot of a replicated expert given to a copy of another; whether one helps."""
        givers = np.flatnonzero(self.copies[self.slots] > 1)
        if not len(givers):
            return False
        mean = self.loads.mean(axis=0)
        growth = mean[self.slots[givers]] / (self.copies * np.maximum(self.copies - 1, 1))[self.slots[givers]]
        givers = givers[np.argsort(growth, kind="stable")[: self.search.givers]]
        swing = (mean + 2 * self.loads.std(axis=0)) / self.copies
        takers = np.argsort(-swing, kind="stable")[: self.search.takers]
        value, best = self.peak * (1 - 10 * _GAIN), None
        for slot in givers:
            without = self._without(int(slot))
            for expert in takers:
                if self._may_take(int(slot), int(expert)):
                    peak = self._peak_with(without, int(slot), int(expert))
                    if peak < value:
                        value, best = peak, (slot, expert)
        if best is None:
            return False
        self.slots[best[0]] = best[1]
        return True

    def _may_take(self, slot: int, expert: int) -> bool:
        card = self.card_of_slot[slot]
        if self.held[card, expert]:
            return False
        node = self.search.node_of_card
        return node is None or bool((self.held[:, expert] & (node == node[card])).any())

    def _without(self, slot: int) -> F64:
        """Card loads [K, G] once ``slot`` is empty."""
        expert = self.slots[slot]
        load, copies = self.loads[:, expert], self.copies[expert]
        after = self.card + np.outer(load * (1 / (copies - 1) - 1 / copies), self.held[:, expert])
        after[:, self.card_of_slot[slot]] -= load / (copies - 1)
        return after

    def _peak_with(self, without: F64, slot: int, expert: int) -> float:
        """Expected peak once the empty ``slot`` holds ``expert``."""
        load, copies = self.loads[:, expert], self.copies[expert]
        after = without - np.outer(load * (1 / copies - 1 / (copies + 1)), self.held[:, expert])
        after[:, self.card_of_slot[slot]] += load / (copies + 1)
        return float(after.max(axis=1).mean())
