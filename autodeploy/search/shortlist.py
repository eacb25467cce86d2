"""What a screen remembers of the space: little, whatever the size of the space."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from autodeploy.search.candidates import Candidates, best_first, group_key, total_order

VARIANTS_PER_GROUP = 3
GROUPS = 512
MISSES = 64
SAFE_GROUPS = 64
DEPARTURE_FRAC = 0.02  # what each option off its default is taken to cost where the plain variants are looked for
NEAR_BEST = 1.5  # times the best score: what is slower is no candidate for a tie
ALMOST_FRAC = 0.35  # of the cap: how far over it a strategy may be for swap or offload to be worth trying


@dataclass(frozen=True, slots=True, eq=False)
class Shortlist:
    """The best variants of the best groups, the best whatever the group, the front, the nearest misses, what would be
    fast if it fitted, and the best of each number of cards."""

    groups: Candidates
    overall: Candidates
    front: Candidates
    misses: Candidates
    almost: Candidates
    sizes: Candidates  # the best of each number of cards
    safe: Candidates  # the best variants of the best groups among those that are likely enough to fit
    plain: Candidates  # of those, the variants that win where each departure from the defaults is held against them
    priced: int
    feasible: int

    def merge(self, other: Shortlist, top: int) -> Shortlist:
        return Shortlist(
            groups=best_of_groups(Candidates.concatenate([self.groups, other.groups])),
            overall=_first(Candidates.concatenate([self.overall, other.overall]), top),
            front=pareto_front(Candidates.concatenate([self.front, other.front])),
            misses=nearest_misses(Candidates.concatenate([self.misses, other.misses])),
            almost=best_of_groups(Candidates.concatenate([self.almost, other.almost]), variants=1, groups=MISSES),
            sizes=best_of_sizes(Candidates.concatenate([self.sizes, other.sizes])),
            safe=best_of_groups(Candidates.concatenate([self.safe, other.safe]), variants=1, groups=SAFE_GROUPS),
            plain=plainest(Candidates.concatenate([self.plain, other.plain])),
            priced=self.priced + other.priced,
            feasible=self.feasible + other.feasible,
        )


def shorten(candidates: Candidates, top: int, cap_bytes: float, safe_bytes: float | None = None) -> Shortlist:
    """Shortlist of one priced batch. ``safe_bytes``: the predicted peak up to which a strategy is likely enough to fit."""
    fitting = candidates.take(candidates.feasible)
    safe = fitting.take(fitting.reserved_bytes <= (cap_bytes if safe_bytes is None else safe_bytes))
    near = ~candidates.feasible & (candidates.reserved_bytes <= (1 + ALMOST_FRAC) * cap_bytes)
    return Shortlist(
        groups=best_of_groups(fitting),
        overall=_first(fitting, top),
        front=pareto_front(fitting),
        misses=nearest_misses(candidates.take(~candidates.feasible)),
        almost=best_of_groups(candidates.take(near), variants=1, groups=MISSES),
        sizes=best_of_sizes(fitting),
        safe=best_of_groups(safe, variants=1, groups=SAFE_GROUPS),
        plain=plainest(safe),
        priced=len(candidates),
        feasible=len(fitting),
    )


def _first(candidates: Candidates, count: int) -> Candidates:
    return candidates.take(best_first(candidates)[:count])


def rank_within_group(candidates: Candidates) -> NDArray[np.int64]:
    """0 for the first strategy of its group, 1 for the second, ... of candidates sorted best first, [N]."""
    first, second = group_key(candidates.batch)
    order = np.lexsort((second, first))  # stable: best first inside a group
    new_group = np.ones(len(order), dtype=bool)
    new_group[1:] = (np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)
    start = np.maximum.accumulate(np.where(new_group, np.arange(len(order)), 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - start
    return rank


def best_of_groups(candidates: Candidates, variants: int = VARIANTS_PER_GROUP, groups: int = GROUPS) -> Candidates:
    """At most ``variants`` strategies of each of the ``groups`` best groups, best first."""
    ordered = candidates.take(best_first(candidates))
    rank = rank_within_group(ordered)
    leaders = ordered.score[rank == 0]
    worst = leaders[groups - 1] if len(leaders) > groups else np.inf
    return ordered.take((rank < variants) & (ordered.score <= worst))


def plainest(candidates: Candidates) -> Candidates:
    """As ``best_of_groups``, with the score raised by ``DEPARTURE_FRAC`` for each departure from the defaults; the scores
    themselves stay."""
    from autodeploy.decide.departures import departures_at
    from autodeploy.decide.rows import levels_of

    near = candidates.take(candidates.score <= NEAR_BEST * candidates.score.min(initial=np.inf))
    raised = near.score * (1.0 + DEPARTURE_FRAC * departures_at(levels_of(near.batch)))
    numbered = replace(near, score=raised, step_s=np.arange(len(near), dtype=np.float64))
    return near.take(best_of_groups(numbered, variants=1, groups=SAFE_GROUPS).step_s.astype(np.intp))


def best_of_sizes(candidates: Candidates) -> Candidates:
    """The best strategy of each number of cards, fewest cards first."""
    ordered = candidates.take(best_first(candidates))
    _, first = np.unique(ordered.batch.devices, return_index=True)
    return ordered.take(first)


def pareto_front(candidates: Candidates) -> Candidates:
    """Strategies that no other beats in both step time and memory, fastest first."""
    order = total_order(candidates.batch, candidates.step_s, candidates.reserved_bytes)
    memory = candidates.reserved_bytes[order]
    least_before = np.concatenate([[np.inf], np.minimum.accumulate(memory)[:-1]]) if len(memory) else memory
    return candidates.take(order[memory < least_before])


def nearest_misses(candidates: Candidates, count: int = MISSES) -> Candidates:
    """Of each group the strategy that needs least memory; the ``count`` least of them."""
    order = total_order(candidates.batch, candidates.reserved_bytes.astype(np.float32), candidates.step_s)
    if len(order) > 4096:  # the nearest are all that matters
        order = order[:4096]
    ordered = candidates.take(order)
    return ordered.take(rank_within_group(ordered) == 0).take(slice(0, count))
