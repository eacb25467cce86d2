"""First-fit decreasing: documents into sequences of a fixed length, none cut."""

from __future__ import annotations

import numpy as np


class _FreeSpace:
    """Free tokens of the open sequences in a max segment tree: the first with enough room in O(log n)."""

    __slots__ = ("leaves", "tree")

    def __init__(self, free: np.ndarray, capacity: int, count: int) -> None:
        self.leaves = 1 << max(1, (count - 1).bit_length())
        level = np.full(self.leaves, capacity, dtype=np.int64)
        level[: free.size] = free
        levels = [level]
        while levels[-1].size > 1:
            levels.append(levels[-1].reshape(-1, 2).max(axis=1))
        self.tree: list[int] = [0, *np.concatenate(levels[::-1]).tolist()]

    def first(self, need: int) -> int:
        tree, leaves, node = self.tree, self.leaves, 1
        while node < leaves:
            node += node
            if tree[node] < need:
                node += 1
        return node - leaves

    def take(self, index: int, tokens: int) -> None:
        tree = self.tree
        node = index + self.leaves
        tree[node] -= tokens
        node >>= 1
        while node:
            left, right = tree[2 * node], tree[2 * node + 1]
            largest = left if left > right else right
            if tree[node] == largest:
                return
            tree[node] = largest
            node >>= 1


def first_fit_decreasing(lengths: np.ndarray, capacity: int) -> np.ndarray:
    """Sequence of each document, int64 [D], by first-fit decreasing; at most 11/9 of the fewest + 6/9 sequences.

    1. Sort descending. What is longer than half a sequence opens one of its own.
    2. For each further length, longest first: all its documents go to the first sequence with room, as many
       as fit, then to the next (the same as one by one, but one tree walk for several documents).
    Bound: Dosa, LNCS 4614, 2007.
    """
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    alone = int(np.searchsorted(-ordered, -(capacity // 2), side="left"))  # documents > capacity // 2
    placed = np.arange(lengths.size, dtype=np.int64)
    upper = alone + int(ordered[alone:].size)
    space = _FreeSpace(capacity - ordered[:alone], capacity, max(1, _sequence_limit(ordered, alone, capacity, upper)))
    values, starts = np.unique(-ordered[alone:], return_index=True)
    edges = np.append(starts, ordered.size - alone) + alone
    first, take, tree, leaves = space.first, space.take, space.tree, space.leaves
    for value, start, stop in zip((-values).tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        while start < stop:
            index = first(value)
            count = min(tree[index + leaves] // value, stop - start)
            placed[start : start + count] = index
            take(index, count * value)
            start += count
    result = np.empty_like(placed)
    result[order] = placed
    return result


def _sequence_limit(ordered: np.ndarray, alone: int, capacity: int, documents: int) -> int:
    """Sequences that first fit can open at most: all but one are more than half full."""
    return min(documents, alone + 2 * int(-(-int(ordered[alone:].sum()) // capacity)) + 1)
