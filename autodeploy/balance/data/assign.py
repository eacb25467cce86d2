"""Greedy longest-first with local exchange: samples -> slots -> rows -> groups -> ranks.

A slot is one micro-batch of one rank. A row is the slots that meet in one expert-parallel group at one
micro-batch index: it lasts as long as its longest slot, so a row holds neighbours of the sorted order.
Axes: B batches, M = R * J * K places, K samples a micro-batch, S = R * J slots, E slots a row, G groups.
"""

from __future__ import annotations

import heapq

import numpy as np

from autodeploy.balance.data.exchange import exchange_rows


def assign_batches(cost_s: np.ndarray, ranks: int, ep_ranks: int, micro_batches: int, places: int) -> np.ndarray:
    """Column of ``cost_s`` [B, M] at every place, int64 [B, R, J, K]. Empty places cost 0 and may fall anywhere.

    1. Samples to slots, longest first to the lightest slot that has a place left.
    2. Slots, sorted, to rows of E neighbours: the least sum of row maxima.
    3. Rows to groups, longest first to the lightest group with a micro-batch left; then exchange.
    4. Slots of a row to the ranks of its group, longest to the rank with the least so far.
    """
    batches = cost_s.shape[0]
    groups = ranks // ep_ranks
    members, slot_s = _fill_slots(cost_s, ranks * micro_batches, places)  # [B, S, K], [B, S], descending
    row_s = slot_s.reshape(batches, groups * micro_batches, ep_ranks)[:, :, 0]
    row_of = np.stack([exchange_rows(row, deal_rows(row, groups)) for row in row_s])  # [B, G, J]
    slot_of = row_of[..., None] * ep_ranks + np.arange(ep_ranks)  # [B, G, J, E]
    slot_of = _spread_over_ranks(slot_of, slot_s)
    slot_of = np.moveaxis(slot_of, 3, 2).reshape(batches, ranks * micro_batches)
    chosen = np.take_along_axis(members, slot_of[:, :, None], axis=1)
    return chosen.reshape(batches, ranks, micro_batches, places)


def _fill_slots(cost_s: np.ndarray, slots: int, places: int) -> tuple[np.ndarray, np.ndarray]:
    """Members [B, S, K] and seconds [B, S] of slots, sorted descending.

    One sample a slot is a sort. Else K rounds: the next S samples, longest to the lightest slot.
    """
    order = np.argsort(-cost_s, axis=1, kind="stable")
    sorted_s = np.take_along_axis(cost_s, order, axis=1)
    members = np.empty((cost_s.shape[0], slots, places), dtype=np.int64)
    slot_s = np.zeros((cost_s.shape[0], slots))
    for k in range(places):
        lightest = np.argsort(slot_s, axis=1, kind="stable")
        block = slice(k * slots, (k + 1) * slots)
        np.put_along_axis(members[:, :, k], lightest, order[:, block], axis=1)
        np.put_along_axis(slot_s, lightest, np.take_along_axis(slot_s, lightest, axis=1) + sorted_s[:, block], axis=1)
    descending = np.argsort(-slot_s, axis=1, kind="stable")
    return np.take_along_axis(members, descending[:, :, None], axis=1), np.take_along_axis(slot_s, descending, axis=1)


def deal_rows(row_s: np.ndarray, groups: int) -> np.ndarray:
    """Rows (descending seconds [G * J]) of each group, int64 [G, J]: longest first to the lightest with a place."""
    per_group = row_s.size // groups
    taken: list[list[int]] = [[] for _ in range(groups)]
    heap = [(0.0, group) for group in range(groups)]
    for row, seconds in enumerate(row_s.tolist()):
        load, group = heap[0]
        taken[group].append(row)
        if len(taken[group]) == per_group:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (load + seconds, group))
    return np.array(taken, dtype=np.int64)


def _spread_over_ranks(slot_of: np.ndarray, slot_s: np.ndarray) -> np.ndarray:
    """Slots [B, G, J, E] permuted along E so that the ranks of a group carry like sums."""
    batches, groups, micro_batches, ep_ranks = slot_of.shape
    result = np.empty_like(slot_of)
    load = np.zeros((batches, groups, ep_ranks))
    seconds = np.take_along_axis(slot_s, slot_of.reshape(batches, -1), axis=1).reshape(slot_of.shape)
    for j in range(micro_batches):  # slots of a row descend along E
        lightest = np.argsort(load, axis=2, kind="stable")
        np.put_along_axis(result[:, :, j], lightest, slot_of[:, :, j], axis=2)
        np.put_along_axis(load, lightest, np.take_along_axis(load, lightest, axis=2) + seconds[:, :, j], axis=2)
    return result
