"""What a screen remembers of the space: little, whatever the size of the space.

Each list is what comes first in one order of all strategies, so that it depends neither on how the space was cut into batches
nor on which of the others were priced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from autodeploy.search.candidates import Candidates, best_first, group_key, total_order
from cost_models.strategies import F64, I64, StrategyBatch

VARIANTS_PER_GROUP = 3
MISSES = 64
DEPARTURE_FRAC = 0.02  # what each option off its default is taken to cost where the plain variants are looked for
NEAR_BEST = 1.5  # times the best score: what is slower is no candidate for a tie
ALMOST_FRAC = 0.35  # of the cap: how far over it a strategy may be for swap or offload to be worth trying


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """How much is kept: strategies whatever their group, and groups; up to which memory a strategy fits the card, and is
    likely enough to fit it; whether the nearest misses are asked for."""

    top: int
    groups: int
    cap_bytes: float
    safe_bytes: float
    misses: bool = False

    @property
    def almost_bytes(self) -> float:
        return (1 + ALMOST_FRAC) * self.cap_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Shortlist:
    """The best variants of the best groups, the best whatever the group, the front, the nearest misses, what would be
    faster if it fitted, and the best of each number of cards."""

    groups: Candidates
    overall: Candidates
    front: Candidates
    misses: Candidates  # empty where they are not asked for
    almost: Candidates
    sizes: Candidates  # the best of each number of cards
    safe: Candidates  # the best variant of the best groups among those that are likely enough to fit
    plain: Candidates  # of those, the variants that win where each departure from the defaults is held against them
    screened: int  # strategies looked at
    feasible: int  # of which fit

    def merge(self, other: Shortlist, keeping: Keeping) -> Shortlist:
        """Of both spaces together; they share no strategy."""

        def both(name: str) -> Candidates:
            return in_order(Candidates.concatenate([getattr(self, name), getattr(other, name)]))

        return _kept(
            {name: both(name) for name in ("groups", "overall", "front", "almost", "sizes", "safe", "plain", "misses")},
            keeping, self.screened + other.screened, self.feasible + other.feasible,
        )  # fmt: skip


def shorten(
    candidates: Candidates, keeping: Keeping, screened: int | None = None, feasible: int | None = None
) -> Shortlist:
    """Shortlist of priced strategies, of as many screened (None: all were priced)."""
    ordered = in_order(candidates)
    fitting, other = ordered.take(ordered.feasible), ordered.take(~ordered.feasible)
    safe = fitting.take(fitting.reserved_bytes <= min(keeping.safe_bytes, keeping.cap_bytes))
    parts = dict.fromkeys(("groups", "overall", "front", "sizes"), fitting) | {"safe": safe, "plain": safe}
    parts["almost"] = other.take(other.reserved_bytes <= keeping.almost_bytes)
    parts["misses"] = other
    return _kept(
        parts,
        keeping,
        len(candidates) if screened is None else screened,
        len(fitting) if feasible is None else feasible,
    )


def _kept(parts: dict[str, Candidates], keeping: Keeping, screened: int, feasible: int) -> Shortlist:
    """What is kept of each list, best first."""
    overall = parts["overall"].take(slice(0, keeping.top))
    return Shortlist(
        groups=leading(parts["groups"], VARIANTS_PER_GROUP, keeping.groups),
        overall=overall,
        front=pareto_front(parts["front"]),
        misses=nearest_misses(parts["misses"]) if keeping.misses else parts["misses"].take(slice(0, 0)),
        almost=leading(_faster(parts["almost"], overall, keeping.top), VARIANTS_PER_GROUP, keeping.groups),
        sizes=best_of_sizes(parts["sizes"]),
        safe=leading(parts["safe"], 1, keeping.groups),
        plain=plainest(parts["plain"], keeping.groups),
        screened=screened,
        feasible=feasible,
    )


def in_order(candidates: Candidates) -> Candidates:
    """Best first."""
    return candidates.take(best_first(candidates))


def _faster(almost: Candidates, overall: Candidates, top: int) -> Candidates:
    """Those that would be among the first ``top`` if they fitted."""
    if len(overall) < top:
        return almost
    return almost.take(almost.score.astype(np.float32) <= overall.score[-1].astype(np.float32))


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


def leading(ordered: Candidates, variants: int, groups: int) -> Candidates:
    """Of candidates sorted best first: up to the leader of the last of so many ``groups``, at most ``variants`` of each."""
    rank = rank_within_group(ordered)
    leaders = np.flatnonzero(rank == 0)
    last = leaders[groups - 1] + 1 if len(leaders) >= groups else len(ordered)
    return ordered.take(np.flatnonzero(rank[:last] < variants))


def best_of_groups(candidates: Candidates, variants: int, groups: int) -> Candidates:
    """``leading`` of candidates in any order."""
    return leading(in_order(candidates), variants, groups)


def near_best(candidates: Candidates) -> Candidates:
    """Without what is so slow that it is no candidate for a tie."""
    return candidates.take(candidates.score <= NEAR_BEST * candidates.score.min(initial=np.inf))


def departures_of(batch: StrategyBatch) -> I64:
    """Options that differ from the stack's defaults, [N]."""
    from autodeploy.decide.departures import departures_at
    from autodeploy.decide.rows import levels_of

    return departures_at(levels_of(batch))


def raised(score: F64, departures: I64) -> F64:
    """The score raised by ``DEPARTURE_FRAC`` for each departure from the defaults, [N]."""
    return score * (1.0 + DEPARTURE_FRAC * departures)


def plainest(candidates: Candidates, groups: int) -> Candidates:
    """The best of each of the best groups by the raised score; the scores themselves stay."""
    score = raised(candidates.score, departures_of(candidates.batch))
    numbered = replace(candidates, score=score, step_s=np.arange(len(candidates), dtype=np.float64))
    return candidates.take(best_of_groups(numbered, 1, groups).step_s.astype(np.intp))


def best_of_sizes(ordered: Candidates) -> Candidates:
    """The best strategy of each number of cards, fewest cards first; of candidates sorted best first."""
    _, first = np.unique(ordered.batch.devices, return_index=True)
    return ordered.take(first)


def pareto_front(candidates: Candidates) -> Candidates:
    """Strategies that no other beats in both step time and memory, to seven digits; fastest first."""
    step_s, memory = candidates.step_s.astype(np.float32), candidates.reserved_bytes.astype(np.float32)
    order = total_order(candidates.batch, step_s, memory)
    least = np.minimum.accumulate(memory[order])
    first = np.ones(len(order), dtype=bool)
    first[1:] = memory[order[1:]] < least[:-1]
    return candidates.take(order[first])


def nearest_misses(candidates: Candidates, count: int = MISSES) -> Candidates:
    """Of each group the strategy that needs least memory; the ``count`` least of them."""
    keys = (candidates.reserved_bytes.astype(np.float32), candidates.step_s.astype(np.float32))
    order = total_order(candidates.batch, *keys)
    ordered = candidates.take(order)
    return ordered.take(rank_within_group(ordered) == 0).take(slice(0, count))
