"""Greedy packing of equal numbers of items into bins, largest item first, all layers at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autodeploy.balance.experts.placement import F64, I64, Bool

_FULL = 1e30  # above any load: a full bin is never chosen
_HELD = 1e20  # a bin that holds a copy already is chosen only when every other bin is full


@dataclass(frozen=True, slots=True)
class Start:
    """Bins that are partly filled: load [L, B], items [L, B], experts held [L, E, B]."""

    load: F64
    items: I64
    held: Bool


def pack(shares: F64, experts: I64, bins: int, capacity: int, start: Start | None = None, spread: bool = True) -> I64:
    """Bin [L, S] of each item: largest share first into the least loaded bin that has room.

    ``shares`` [L, S] are tokens, ``experts`` [L, S] the ids. ``spread`` keeps copies of one expert on different bins
    where it can. Source: longest-processing-time rule (Graham, SIAM J. Appl. Math. 17, 1969) with a cardinality limit.
    """
    layers, items = shares.shape
    row = np.arange(layers)
    order = np.argsort(-shares, axis=1, kind="stable")
    share_by_turn = np.ascontiguousarray(np.take_along_axis(shares, order, axis=1).T)
    expert_by_turn = np.ascontiguousarray(np.take_along_axis(experts, order, axis=1).T)
    load = np.zeros((layers, bins)) if start is None else start.load.copy()
    room = np.full((layers, bins), capacity) - (0 if start is None else start.items)
    load[room <= 0] += _FULL
    if start is not None:
        held = start.held.copy()
    elif spread:
        held = np.zeros((layers, int(experts.max(initial=0)) + 1, bins), dtype=bool)
    chosen_by_turn = np.empty((items, layers), dtype=np.int64)
    for turn in range(items):
        expert = expert_by_turn[turn]
        key = load + _HELD * held[row, expert] if spread else load
        chosen = key.argmin(axis=1)
        chosen_by_turn[turn] = chosen
        load[row, chosen] += share_by_turn[turn]
        left = room[row, chosen] - 1
        room[row, chosen] = left
        load[row, chosen] += _FULL * (left == 0)
        if spread:
            held[row, expert, chosen] = True
    result = np.empty((layers, items), dtype=np.int64)
    np.put_along_axis(result, order, chosen_by_turn.T, axis=1)
    return result


def slots_from_bins(bin_of_item: I64, experts: I64, bins: int) -> I64:
    """Experts by bin [L, bins, S/bins] from the bin [L, S] of each item and its expert [L, S]."""
    order = np.argsort(bin_of_item, axis=1, kind="stable")
    return np.take_along_axis(experts, order, axis=1).reshape(len(experts), bins, -1)
