"""Swaps of samples between micro-batches of different rows that shorten the rows: less waiting inside expert groups.

Axes: N samples, S slots, E slots a row (the ranks of an expert-parallel group at one micro-batch).
"""

from __future__ import annotations

import numpy as np

from autodeploy.balance.data.assign import deal_rows
from autodeploy.balance.data.exchange import exchange_rows

MOST_SAMPLES = 1600  # pairs are tried all at once: 2.5 million numbers
ROUNDS = 60
_ENOUGH = 4e-3  # of the mean: waiting left that is not worth a further round


def tighten(
    slot_of: np.ndarray, cost_s: np.ndarray, tokens: np.ndarray, slots: int, ep_ranks: int, limit_tokens: int
) -> np.ndarray:
    """``slot_of`` [N] after rounds of swaps; in each, the best swaps that touch different rows are made."""
    slot_of = slot_of.copy()
    if slot_of.size > MOST_SAMPLES or ep_ranks == 1:
        return slot_of
    for _ in range(ROUNDS):
        slot_s = np.bincount(slot_of, cost_s, slots)
        rows = slot_s.reshape(-1, ep_ranks)
        if rows.max(axis=1).sum() * ep_ranks <= (1 + _ENOUGH) * cost_s.sum():
            break
        room = limit_tokens - np.bincount(slot_of, tokens, slots)
        pairs = _best_swaps(slot_of, cost_s, tokens, rows, room)
        for a, b in pairs:
            slot_of[a], slot_of[b] = slot_of[b], slot_of[a]
        if not pairs and not _moved(slot_of, cost_s, tokens, rows, room):
            break
    return slot_of


def _moved(slot_of: np.ndarray, cost_s: np.ndarray, tokens: np.ndarray, rows: np.ndarray, room: np.ndarray) -> bool:
    """Makes the one move of a sample to a slot of another row that shortens both rows together most; in place."""
    ep_ranks = rows.shape[1]
    top = np.sort(rows, axis=1)
    longest = np.repeat(top[:, -1], ep_ranks)  # [S]
    others = np.where(rows.ravel() == longest, np.repeat(top[:, -2], ep_ranks), longest)
    slot_s = rows.ravel()
    shorter = longest[slot_of] - np.maximum(others[slot_of], slot_s[slot_of] - cost_s)  # [N]
    longer = np.maximum(slot_s[None] + cost_s[:, None] - longest[None], 0.0)  # [N, S]
    barred = (slot_of[:, None] // ep_ranks == np.arange(slot_s.size) // ep_ranks) | (tokens[:, None] > room[None])
    gain = np.where(barred, 0.0, shorter[:, None] - longer)
    sample, slot = np.unravel_index(int(gain.argmax()), gain.shape)
    if gain[sample, slot] <= 1e-9 * longest.mean():
        return False
    slot_of[sample] = slot
    return True


def _best_swaps(
    slot_of: np.ndarray, cost_s: np.ndarray, tokens: np.ndarray, rows: np.ndarray, room: np.ndarray
) -> list[tuple[int, int]]:
    """Sample pairs whose swap shortens two rows together, best first, no row twice."""
    ep_ranks = rows.shape[1]
    row_of = slot_of // ep_ranks
    top = np.sort(rows, axis=1)
    longest = np.repeat(top[:, -1], ep_ranks)
    others = np.where(rows.ravel() == longest, np.repeat(top[:, -2], ep_ranks), longest)[slot_of]  # [N] beside the slot
    slot_s, row_s = rows.ravel()[slot_of], longest[slot_of]
    gained = cost_s[None, :] - cost_s[:, None]  # what the slot of a gains when a and b change places
    after = np.maximum(others[:, None], slot_s[:, None] + gained)
    gain = row_s[:, None] - after  # [a, b]; b's side is the transpose
    gain = gain + gain.T
    more = tokens[None, :] - tokens[:, None]
    free = room[slot_of]
    barred = (row_of[:, None] == row_of) | (more > free[:, None]) | (-more > free[None, :])
    gain = np.triu(np.where(barred, 0.0, gain))
    most = min(4 * len(rows), gain.size)
    likely = np.sort(np.argpartition(-gain, most - 1, axis=None)[:most])
    order = likely[np.argsort(-gain.ravel()[likely], kind="stable")]
    taken: set[int] = set()
    pairs = []
    for flat in order.tolist():
        a, b = divmod(flat, len(slot_of))
        if gain[a, b] <= 1e-9 * row_s[a]:
            break
        if row_of[a] not in taken and row_of[b] not in taken:
            taken |= {int(row_of[a]), int(row_of[b])}
            pairs.append((a, b))
    return pairs


def even_groups(slot_of: np.ndarray, cost_s: np.ndarray, groups: int, micro_batches: int, ep_ranks: int) -> np.ndarray:
    """``slot_of`` [N] with whole rows dealt anew over the groups so that their sums are alike."""
    row_s = np.bincount(slot_of, cost_s, groups * micro_batches * ep_ranks).reshape(-1, ep_ranks).max(axis=1)
    order = np.argsort(-row_s, kind="stable")
    dealt = exchange_rows(row_s[order], deal_rows(row_s[order], groups))  # [G, J] places in the order
    new = np.empty(row_s.size, dtype=np.int64)
    new[order[dealt.ravel()]] = np.arange(row_s.size)
    return new[slot_of // ep_ranks] * ep_ranks + slot_of % ep_ranks
