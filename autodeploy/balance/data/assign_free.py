"""Micro-batches with free counts: short samples share one while it has room, so that no rank waits for another.

For samples that are not padded (packed as variable-length sequences): a micro-batch costs what its samples
cost, and is limited by its tokens, not by how many samples they come from.
"""

from __future__ import annotations

import numpy as np

from autodeploy.balance.data.split import Filled
from autodeploy.balance.data.tighten import even_groups, tighten

WAITING_FRAC = 5e-3  # above max(mean, costliest): rows of a step further off are tightened by swaps


def assign_freely(
    cost_s: np.ndarray,
    tokens: np.ndarray,
    ranks: int,
    ep_ranks: int,
    micro_batches: int,
    limit_tokens: int,
    filled: Filled | None = None,
) -> np.ndarray | None:
    """Sample index at every place, int64 [R, J, K] with -1 where empty; None where some sample finds no room.

    ``filled`` is what split samples have taken already (their own ids are not in the result).

    Longest first. A row (the slots that meet at one micro-batch of one group) lasts as long as its longest slot.
    1. A slot that waits at least as long as the sample takes has it for nothing: the tightest such.
    2. Else the slot where the group's sum of rows grows to the least; a group first uses all its micro-batches.
    """
    groups = ranks // ep_ranks
    slots = ranks * micro_batches  # slot = (group * J + micro-batch) * E + rank in the group
    slot_s, room = np.zeros(slots), np.full(slots, limit_tokens, dtype=np.int64)
    if filled is not None:
        slot_s = _by_slot(filled.slot_s, ep_ranks).astype(float)
        room = room - _by_slot(filled.slot_tokens, ep_ranks)
    taken = slot_s > 0
    row_s = slot_s.reshape(-1, ep_ranks).max(axis=1)
    group_s = row_s.reshape(groups, -1).sum(axis=1)
    slot_of = np.empty(cost_s.size, dtype=np.int64)
    for sample in np.argsort(-cost_s, kind="stable").tolist():
        seconds, need = cost_s[sample], tokens[sample]
        wait = np.repeat(row_s, ep_ranks) - slot_s
        wait[room < need] = -np.inf
        free = np.where(wait >= seconds, wait, np.inf)
        slot = int(free.argmin())
        if free[slot] == np.inf:
            grown = np.repeat(group_s, micro_batches * ep_ranks) + (seconds - wait)
            unopened = (row_s == 0).reshape(groups, micro_batches).any(axis=1)
            grown[np.repeat(unopened, micro_batches * ep_ranks) & np.repeat(row_s > 0, ep_ranks)] = np.inf
            slot = int(grown.argmin())
            if grown[slot] == np.inf:
                return None
        row = slot // ep_ranks
        slot_s[slot] += seconds
        room[slot] -= need
        growth = max(0.0, slot_s[slot] - row_s[row])
        row_s[row] += growth
        group_s[row // micro_batches] += growth
        slot_of[sample] = slot
    _fill_empty(slot_of, cost_s, row_s, group_s, taken)
    bound_s = max(cost_s.max(initial=0.0), cost_s.sum() / ranks)
    if filled is None and group_s.max() > bound_s * (1 + WAITING_FRAC):
        slot_of = tighten(slot_of, cost_s, tokens, slots, ep_ranks, limit_tokens)
    if filled is None:
        slot_of = even_groups(slot_of, cost_s, groups, micro_batches, ep_ranks)
    return as_order(slot_of, ranks, ep_ranks, micro_batches)


def _by_slot(values: np.ndarray, ep_ranks: int) -> np.ndarray:
    """[S] in the order of slots, of [R, J]."""
    return np.moveaxis(values.reshape(-1, ep_ranks, values.shape[1]), 1, 2).ravel()


def _fill_empty(
    slot_of: np.ndarray, cost_s: np.ndarray, row_s: np.ndarray, group_s: np.ndarray, taken: np.ndarray
) -> None:
    """Moves the cheapest sample of a shared slot to an empty one where the step does not grow; in place.

    A rank with nothing to do at a micro-batch must be fed a dummy by the framework, so there should be few.
    """
    held = np.bincount(slot_of, minlength=taken.size) + taken
    ep_ranks = taken.size // row_s.size
    per_group = row_s.size // group_s.size
    longest = group_s.max()
    cheapest = iter(np.argsort(cost_s, kind="stable").tolist())
    for slot in np.nonzero(held == 0)[0].tolist():
        sample = next((s for s in cheapest if held[slot_of[s]] > 1), None)
        if sample is None:
            return
        row = slot // ep_ranks
        growth = max(0.0, cost_s[sample] - row_s[row])
        if group_s[row // per_group] + growth > longest:
            return
        held[slot_of[sample]] -= 1
        held[slot] += 1
        slot_of[sample] = slot
        row_s[row] += growth
        group_s[row // per_group] += growth


def as_order(slot_of: np.ndarray, ranks: int, ep_ranks: int, micro_batches: int) -> np.ndarray:
    """[R, J, K], K the most samples that one micro-batch holds."""
    slots = ranks * micro_batches
    by_slot = np.argsort(slot_of, kind="stable")
    counts = np.bincount(slot_of, minlength=slots)
    places = np.arange(slot_of.size) - np.repeat(np.cumsum(counts) - counts, counts)
    order = np.full((slots, max(1, int(counts.max()))), -1, dtype=np.int64)
    order[slot_of[by_slot], places] = by_slot
    grouped = order.reshape(ranks // ep_ranks, micro_batches, ep_ranks, -1)
    return np.moveaxis(grouped, 2, 1).reshape(ranks, micro_batches, -1)
