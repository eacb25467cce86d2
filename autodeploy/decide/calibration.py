"""Is what is said with probability p right p of the time? Pairs of strategies of measured problems.

Axes: B bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cost_models.strategies import F64, Bool

EDGES = np.linspace(0.5, 1.0, 11)
RESAMPLES = 200  # bootstrap over problems, not over pairs: pairs of one problem hang together


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The pairs of one problem: the probability said of the order that was thought likelier, and whether it was right."""

    said: F64
    right: Bool


def pairs_of(faster: F64, measured_s: F64) -> Pairs:
    """``faster`` [N, N]: P(row i is faster than row j). Pairs measured equal have no order and are left out."""
    i, j = np.triu_indices(len(measured_s), k=1)
    differ = measured_s[i] != measured_s[j]
    i, j = i[differ], j[differ]
    probability, truth = faster[i, j], measured_s[i] < measured_s[j]
    return Pairs(np.maximum(probability, 1 - probability), np.where(probability >= 0.5, truth, ~truth))


def brier(pairs: Sequence[Pairs], weigh_problems: bool = False) -> float | None:
    """Mean squared distance of what was said from what was so. With ``weigh_problems`` each problem weighs the same."""
    losses = [np.where(one.right, 1.0 - one.said, one.said) ** 2 for one in pairs if len(one.said)]
    if not losses:
        return None
    return float(np.mean([loss.mean() for loss in losses]) if weigh_problems else np.concatenate(losses).mean())


def always_sure(pairs: Sequence[Pairs]) -> float | None:
    """The Brier score of who says 1 of the same orders: the share of wrong ones."""
    right = np.concatenate([one.right for one in pairs]) if pairs else np.zeros(0)
    return float(1.0 - right.mean()) if len(right) else None


def calibration_table(pairs: Sequence[Pairs], seed: int = 0) -> list[dict[str, Any]]:
    """One entry for each bin that holds pairs."""
    sums = np.array([_sums(one) for one in pairs])  # [problems, 3, B]: pairs, said, right
    total = sums.sum(axis=0)
    rng = np.random.default_rng(seed)
    again = sums[rng.integers(0, len(sums), (RESAMPLES, len(sums)))].sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        rights = again[:, 2] / again[:, 0]
    found = []
    for b in range(len(EDGES) - 1):
        if total[0, b]:
            found.append({
                "from": float(EDGES[b].round(2)), "to": float(EDGES[b + 1].round(2)),
                "said": float(total[1, b] / total[0, b]), "right": float(total[2, b] / total[0, b]),
                "standard_error": float(np.nanstd(rights[:, b])), "pairs": int(total[0, b]),
            })  # fmt: skip
    return found


def _sums(one: Pairs) -> F64:
    b = np.clip(np.digitize(one.said, EDGES) - 1, 0, len(EDGES) - 2)
    count = len(EDGES) - 1
    return np.stack([np.bincount(b, weights=w, minlength=count) for w in (np.ones(len(b)), one.said, one.right)])
