"""Local exchange: relieve the hottest card of each layer, one improving move at a time, all layers at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autodeploy.balance.experts.placement import F64, I64, Bool, replica_counts

_NEVER = 1e300
_GAIN = 1e-6  # smallest relative gain that counts as one


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What an exchange may do."""

    steps: int = 100  # moves per layer at most
    goal_frac: float = 1e-3  # stop a layer at (1 + goal_frac) x mean
    recount: bool = True  # a slot of a replicated expert may take a copy of another
    node_of_card: I64 | None = None  # [G]; set: swaps stay inside the node, copies come from it
    fillers: bool = True  # of ``place``: copies of the lightest experts may fill slots beside heavy shares
    movable: Bool | None = None  # [L, S] slots that may change; all where None


def exchange(flat: I64, loads: F64, cards: int, rules: Rules | None = None) -> tuple[I64, I64]:
    """Improve slots [L, S] for loads [L, E]; returns (slots [L, S], steps taken [L]).

    Each step takes the best swap of a slot of the hottest card with one elsewhere; where none helps, the best re-use:
    a slot of a replicated expert is given to a copy of an expert on the hottest card. The largest card load of a layer never rises.
    """
    rules = rules or Rules()
    best = flat.copy()
    steps = np.zeros(len(flat), dtype=np.int64)
    active = np.arange(len(flat))
    for _ in range(rules.steps):
        chosen = rules if rules.movable is None else replace(rules, movable=rules.movable[active])
        changed, moved = _step(best[active], loads[active], cards, chosen)
        active = active[moved]
        if not len(active):
            break
        best[active] = changed
        steps[active] += 1
    return best, steps


@dataclass(slots=True)
class _State:
    """One batch of layers under exchange; all arrays lead with L."""

    flat: I64  # [L, S]
    loads: F64  # [L, E]
    copies: I64  # [L, E]
    share: F64  # [L, S] tokens of each slot
    card: F64  # [L, G] tokens of each card
    hot: I64  # [L] hottest card
    held: Bool  # [L, E, G]


def _state(flat: I64, loads: F64, cards: int) -> _State:
    copies = replica_counts(flat, loads.shape[1])
    share = np.take_along_axis(loads / copies, flat, axis=1)
    card = share.reshape(len(flat), cards, -1).sum(axis=2)
    held = np.zeros((*loads.shape, cards), dtype=bool)
    card_of_slot = np.arange(flat.shape[1]) // (flat.shape[1] // cards)
    held[np.arange(len(flat))[:, None], flat, card_of_slot] = True
    return _State(flat, loads, copies, share, card, card.argmax(axis=1), held)


def _step(flat: I64, loads: F64, cards: int, rules: Rules) -> tuple[I64, Bool]:
    """The best move of every layer that has one: (slots of the layers that moved, which moved [L])."""
    s = _state(flat, loads, cards)
    goal = s.card.mean(axis=1) * (1 + rules.goal_frac)
    limit = np.where(s.card.max(axis=1) > goal, s.card.max(axis=1) * (1 - _GAIN), -1.0)
    value, hot_slot, other = _best_swap(s, cards, rules)
    swaps = value < limit
    row = np.arange(len(flat))
    result = flat.copy()
    result[row[swaps], other[swaps]] = flat[row[swaps], hot_slot[swaps]]
    result[row[swaps], hot_slot[swaps]] = flat[row[swaps], other[swaps]]
    stuck = row[~swaps & (limit > 0)]
    if not (rules.recount and len(stuck) and (s.copies[stuck] > 1).any()):
        return result[swaps], swaps
    narrowed = rules if rules.movable is None else replace(rules, movable=rules.movable[stuck])
    value, hot_slot, other = _best_copy(_state(flat[stuck], loads[stuck], cards), cards, narrowed)
    copies = value < limit[stuck]
    result[stuck[copies], other[copies]] = flat[stuck[copies], hot_slot[copies]]
    swaps[stuck[copies]] = True
    return result[swaps], swaps


def _best_swap(s: _State, cards: int, rules: Rules) -> tuple[F64, I64, I64]:
    """Best swap per layer: (larger of the two cards' loads after it, slot on the hottest card, slot elsewhere), each [L]."""
    layers, slots = s.flat.shape
    width = slots // cards
    row = np.arange(layers)[:, None]
    card_of_slot = np.arange(slots) // width
    hot_slots = s.hot[:, None] * width + np.arange(width)  # [L, C]
    hot_experts = s.flat[row, hot_slots]
    barred = s.held[row, s.flat, s.hot[:, None]] | (card_of_slot == s.hot[:, None])  # [L, S]
    if rules.node_of_card is not None:
        barred |= rules.node_of_card[card_of_slot] != rules.node_of_card[s.hot][:, None]
    if rules.movable is not None:
        barred |= ~rules.movable
    elsewhere = np.where(barred, _NEVER, s.card[:, card_of_slot])  # [L, S]
    shed = s.share[row, hot_slots][:, :, None] - s.share[:, None, :]  # [L, C, S] tokens leaving the hottest card
    peak = np.take_along_axis(s.card, s.hot[:, None], axis=1)[:, :, None]
    value = np.maximum(peak - shed, elsewhere[:, None, :] + shed)
    if (s.copies > 1).any():
        repeats = s.held[row, hot_experts]  # [L, C, G]
        value = np.where(np.repeat(repeats, width, axis=2), _NEVER, value)
    if rules.movable is not None:
        value = np.where(rules.movable[row, hot_slots][:, :, None], value, _NEVER)
    flat_best = value.reshape(layers, -1).argmin(axis=1)
    best = np.take_along_axis(value.reshape(layers, -1), flat_best[:, None], axis=1)[:, 0]
    return best, np.take_along_axis(hot_slots, (flat_best // slots)[:, None], axis=1)[:, 0], flat_best % slots


def _best_copy(s: _State, cards: int, rules: Rules) -> tuple[F64, I64, I64]:
    """Best re-use of a replica's slot: (largest load among the cards it touches, source slot, slot given away), each [L].

    Expert x of the hottest card gains a copy on card b, in place of expert y, which keeps at least one. Cards that
    hold y grow by y's share spread over fewer copies; their largest load bounds the value.
    """
    layers, slots = s.flat.shape
    width = slots // cards
    row = np.arange(layers)[:, None]
    card_of_slot = np.arange(slots) // width
    hot_slots = s.hot[:, None] * width + np.arange(width)
    hot_experts = s.flat[row, hot_slots]
    copies_y = s.copies[row, s.flat]  # [L, S]
    growth_y = s.loads[row, s.flat] * (1 / np.maximum(copies_y - 1, 1) - 1 / copies_y)
    others = s.card.copy()
    np.put_along_axis(others, s.hot[:, None], 0.0, axis=1)
    holder_peak = np.where(s.held, others[:, None, :], 0.0).max(axis=2)  # [L, E] besides the hottest card
    share_x = s.loads[row, hot_experts] / (s.copies[row, hot_experts] + 1)  # [L, C]
    relief = s.loads[row, hot_experts] / s.copies[row, hot_experts] - share_x
    barred = (copies_y < 2) | (card_of_slot == s.hot[:, None])
    if rules.movable is not None:
        barred |= ~rules.movable
    y_on_hot = s.held[row, s.flat, s.hot[:, None]]
    peak = np.take_along_axis(s.card, s.hot[:, None], axis=1)
    hot_after = (peak - relief)[:, :, None] + np.where(y_on_hot, growth_y, 0.0)[:, None, :]
    there_after = (s.card[:, card_of_slot] - s.share)[:, None, :] + share_x[:, :, None]
    others_after = (holder_peak[row, s.flat] + growth_y)[:, None, :]
    value = np.maximum(np.maximum(hot_after, there_after), others_after)
    value = np.where(barred[:, None, :] | np.repeat(s.held[row, hot_experts], width, axis=2), _NEVER, value)
    if rules.node_of_card is not None:
        value = np.where(_in_node(s, hot_experts, cards, rules.node_of_card), value, _NEVER)
    flat_best = value.reshape(layers, -1).argmin(axis=1)
    best = np.take_along_axis(value.reshape(layers, -1), flat_best[:, None], axis=1)[:, 0]
    return best, np.take_along_axis(hot_slots, (flat_best // slots)[:, None], axis=1)[:, 0], flat_best % slots


def _in_node(s: _State, hot_experts: I64, cards: int, node_of_card: I64) -> Bool:
    """Whether the node of slot s has a copy of the hot expert already [L, C, S]: the copy then stays inside it."""
    row = np.arange(len(s.flat))[:, None]
    held = s.held[row, hot_experts]  # [L, C, G]
    by_node = np.stack([held[:, :, node_of_card == n].any(axis=2) for n in range(int(node_of_card.max()) + 1)], axis=2)
    return np.repeat(by_node[:, :, node_of_card], s.flat.shape[1] // cards, axis=2)
