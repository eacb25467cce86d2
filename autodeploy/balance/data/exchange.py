"""Local exchange: swap rows of the fullest group against shorter ones elsewhere while the step shrinks."""

from __future__ import annotations

from itertools import combinations

import numpy as np

GOOD_ENOUGH_FRAC = 3e-4  # of the mean: below what any timing can tell
MAX_SWAPS = 300
MAX_PAIR_SWAPS = 20
MAX_ROWS_FOR_PAIRS = 12  # with more rows in a group, single swaps already end within 1e-3 of the mean
MAX_CANDIDATES = 64  # rows tried of each group: with more rows than that, the greedy pass is already within 1e-4


def exchange_rows(row_s: np.ndarray, row_of: np.ndarray) -> np.ndarray:
    """``row_of`` [G, J] after swaps that each lower the largest group sum; rows longest first within a group.

    One row against one; where none helps and rows are few, two against two.
    """
    row_of = row_of.copy()
    groups, rows = row_of.shape
    pairs = np.array(list(combinations(range(rows), 2))) if 2 < rows <= MAX_ROWS_FOR_PAIRS else None
    ones = np.arange(0, rows, max(1, rows // MAX_CANDIDATES))[:, None]
    load = row_s[row_of].sum(axis=1)
    longest_alone = row_s[0] + row_s[row_s.size - rows + 1 :].sum()  # no group with the longest row is shorter
    enough = max(load.mean(), longest_alone) * (1 + GOOD_ENOUGH_FRAC)
    pair_swaps = 0
    for _ in range(MAX_SWAPS if groups > 1 else 0):
        worst = int(np.argmax(load))
        if load[worst] <= enough:
            break
        swap = _best_swap(row_s[row_of], load, worst, ones)
        if swap is None and pairs is not None and pair_swaps < MAX_PAIR_SWAPS:
            swap, pair_swaps = _best_swap(row_s[row_of], load, worst, pairs), pair_swaps + 1
        if swap is None:
            break
        mine, other, theirs = swap
        row_of[worst, mine], row_of[other, theirs] = row_of[other, theirs], row_of[worst, mine]
        load[[worst, other]] = row_s[row_of[[worst, other]]].sum(axis=1)
    return np.sort(row_of, axis=1)  # rows are numbered longest first


def _best_swap(
    seconds: np.ndarray, load: np.ndarray, worst: int, sets: np.ndarray
) -> tuple[np.ndarray, int, np.ndarray] | None:
    """(rows of the fullest group, other group, its rows) with the least larger sum of the two, if that is progress.

    ``seconds`` [G, J]; ``sets`` [C, n]: the sets of n row places tried on either side.
    """
    sums = seconds[:, sets].sum(axis=2)  # [G, C]
    moved = sums[worst][:, None, None] - sums[None]  # [C, G, C]
    larger = np.maximum(load[worst] - moved, load[None, :, None] + moved)
    larger[:, worst] = np.inf
    a, other, b = np.unravel_index(int(np.argmin(larger)), larger.shape)
    if larger[a, other, b] >= load[worst] * (1 - 1e-12):
        return None
    return sets[a], int(other), sets[b]
