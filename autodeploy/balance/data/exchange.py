"""Local exchange: swap a row of the fullest group against a shorter one elsewhere while the step shrinks."""

from __future__ import annotations

import numpy as np

GOOD_ENOUGH_FRAC = 1e-4  # of the mean: below what any timing can tell
MAX_SWAPS = 300
MAX_CANDIDATES = 64  # rows tried of each group: with more rows than that, the greedy pass is already within 1e-4


def exchange_rows(row_s: np.ndarray, row_of: np.ndarray) -> np.ndarray:
    """``row_of`` [G, J] after swaps that each lower the largest group sum; rows longest first within a group."""
    row_of = row_of.copy()
    seconds = row_s[row_of]
    load = seconds.sum(axis=1)
    enough = max(load.mean() * (1 + GOOD_ENOUGH_FRAC), row_s[0])
    for _ in range(MAX_SWAPS if len(row_of) > 1 else 0):
        worst = int(np.argmax(load))
        if load[worst] <= enough:
            break
        swap = _best_swap(seconds, load, worst)
        if swap is None:
            break
        mine, other, theirs = swap
        moved = seconds[worst, mine] - seconds[other, theirs]
        row_of[worst, mine], row_of[other, theirs] = row_of[other, theirs], row_of[worst, mine]
        seconds[worst, mine], seconds[other, theirs] = seconds[other, theirs], seconds[worst, mine]
        load[worst] -= moved
        load[other] += moved
    return np.sort(row_of, axis=1)  # rows are numbered longest first


def _best_swap(seconds: np.ndarray, load: np.ndarray, worst: int) -> tuple[int, int, int] | None:
    """(row of the fullest group, other group, its row) with the least larger sum of the two, if that is progress."""
    step = max(1, seconds.shape[1] // MAX_CANDIDATES)
    mine, theirs = seconds[worst, ::step], seconds[:, ::step]
    moved = mine[:, None, None] - theirs[None]  # [J, G, J]
    larger = np.maximum(load[worst] - moved, load[None, :, None] + moved)
    larger[:, worst] = np.inf
    best = int(np.argmin(larger))
    a, other, b = (int(i) for i in np.unravel_index(best, larger.shape))
    if larger[a, other, b] >= load[worst] * (1 - 1e-12):
        return None
    return a * step, other, b * step
