"""Up to which score a strategy may still enter the shortlist, given what is known of others.

From exact scores of some strategies, no cutoff is below that of the whole space: what lies beyond it need not be priced.
Axes: N strategies, G groups, K numbers of cards.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from autodeploy.search.shortlist import VARIANTS_PER_GROUP, Keeping
from cost_models.strategies import F64, I64, Bool

ALMOST, FITS, SAFE = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scored:
    """N strategies with their scores, exact or at least; ``raised`` holds each departure from the defaults against them."""

    score: F64
    raised: F64
    step_s: F64
    memory_bytes: F64
    group: I64

    def __len__(self) -> int:
        return len(self.score)

    def take(self, index: NDArray[np.intp] | Bool) -> Scored:
        return Scored(**{each.name: getattr(self, each.name)[index] for each in fields(self)})

    @staticmethod
    def concatenate(parts: list[Scored]) -> Scored:
        return Scored(
            **{each.name: np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Scored)}
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cutoffs:
    """``score`` [3, G] of what almost fits, fits, and is likely enough to fit; ``raised`` [G] of the last; and the front:
    the least step among strategies that need no more memory than each of ``memory_bytes`` (ascending)."""

    score: F64
    raised: F64
    memory_bytes: F64
    step_s: F64


def cutoffs(known: Scored, size_of: I64, keeping: Keeping) -> Cutoffs:
    """``size_of`` [G]: the number of cards of each group, as its place among them."""
    groups = len(size_of)
    kind = kinds(known.memory_bytes, keeping)
    fitting, safe, almost = (known.take(kind >= FITS), known.take(kind == SAFE), known.take(kind == ALMOST))
    overall = nth(fitting.score, keeping.top)
    sizes = best(fitting.score, size_of[fitting.group], int(size_of.max(initial=0)) + 1)
    kept = np.maximum(np.maximum(leading(fitting.score, fitting.group, groups, keeping), overall), sizes[size_of])
    of_safe = best_leading(safe.score, safe.group, groups, keeping.groups)
    of_almost = np.minimum(leading(almost.score, almost.group, groups, keeping), overall)
    order = np.argsort(fitting.memory_bytes)
    return Cutoffs(
        score=np.stack([of_almost, kept, np.maximum(kept, of_safe)]),
        raised=best_leading(safe.raised, safe.group, groups, keeping.groups),
        memory_bytes=fitting.memory_bytes[order],
        step_s=np.minimum.accumulate(fitting.step_s[order]),
    )


def margins(rows: Scored, cut: Cutoffs, keeping: Keeping) -> F64:
    """Of each strategy its score over the cutoff, of the list that it is nearest to entering, [N]: above 1 it enters none."""
    kind = kinds(rows.memory_bytes, keeping)
    margin = rows.score / cut.score.reshape(-1)[kind * cut.score.shape[1] + rows.group]
    safe = np.flatnonzero(kind == SAFE)
    margin[safe] = np.minimum(margin[safe], rows.raised[safe] / cut.raised[rows.group[safe]])
    fits = np.flatnonzero((kind >= FITS) & (margin > 1))
    front = np.concatenate([[np.inf], cut.step_s])[
        np.searchsorted(cut.memory_bytes, rows.memory_bytes[fits], side="right")
    ]
    margin[fits] = np.minimum(margin[fits], rows.step_s[fits] / front)
    return margin


def kinds(memory_bytes: F64, keeping: Keeping) -> I64:
    """Likely enough to fit, fits, or neither; [N]."""
    fits = memory_bytes <= keeping.cap_bytes
    return fits.astype(np.int64) + (fits & (memory_bytes <= keeping.safe_bytes))


# ------------------------------------------------------------------------------------------- order statistics


def nth(values: F64, n: int) -> float:
    """The n-th smallest, counted from 1; infinite where there are fewer."""
    return float(np.partition(values, n - 1)[n - 1]) if len(values) >= n else np.inf


def best(score: F64, group: I64, groups: int) -> F64:
    """Least score of each group, [G]."""
    least = np.full(groups, np.inf)
    np.minimum.at(least, group, score)
    return least


def best_leading(score: F64, group: I64, groups: int, first: int) -> F64:
    """Least score of each group, of those among the ``first`` best; [G]."""
    least = best(score, group, groups)
    return np.minimum(least, nth(least, first))


def leading(score: F64, group: I64, groups: int, keeping: Keeping) -> F64:
    """As ``best_leading``, with several variants of each group."""
    last = nth(best(score, group, groups), keeping.groups)
    near = np.flatnonzero(score <= last)
    order = near[np.lexsort((score[near], group[near]))]
    starts = np.searchsorted(group[order], np.arange(groups))
    places = starts + VARIANTS_PER_GROUP - 1
    enough = places < np.append(starts[1:], len(order))
    found = np.full(groups, np.inf)
    found[enough] = score[order[places[enough]]]
    return np.minimum(found, last)
