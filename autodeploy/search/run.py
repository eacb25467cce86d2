"""A search from question to answer: screen, refine, simulate, rank."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from autodeploy.search.candidates import Candidates
from autodeploy.search.leaders import SIMULATED, ranked
from autodeploy.search.nearest import NearMiss, nearest
from autodeploy.search.rank import Ranking, rank
from autodeploy.search.refined import Refined
from autodeploy.search.request import Progress, SearchRequest
from autodeploy.search.screen import OnPriced, screen
from autodeploy.search.shortlist import Shortlist
from autodeploy.search.space import WalkCounts
from autodeploy.search.sweep import origins_around, sweep_around
from autodeploy.search.twin import Twin

if TYPE_CHECKING:
    from cost_models.step import StepCost

BALANCED = 8  # best groups whose layers are balanced


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchResult:
    """``ranking`` is None where nothing fits; then ``misses`` says what comes closest."""

    request: SearchRequest
    counts: WalkCounts
    ranking: Ranking | None = None
    cost: StepCost | None = None  # of the ranked strategies, in order
    misses: list[NearMiss] = field(default_factory=list)
    enumerated: int = 0
    feasible: int = 0
    screen_s: float = 0.0
    refined: int = 0
    refine_s: float = 0.0
    timed_out: bool = False
    interrupted: bool = False  # by Ctrl-C: what was found until then is ranked, in closed-form prices
    tried: tuple[Candidates, ...] = ()  # what was moved around; what was found there; what a study holds
    sizes: Ranking | None = None  # the best of each number of cards, where there are several
    sizes_cost: StepCost | None = None


def search(
    request: SearchRequest, twin: Twin, *, progress: Progress | None = None, on_priced: OnPriced | None = None
) -> SearchResult:
    """Ranks the strategies of ``request``."""
    deadline = None if request.timeout_s is None else time.monotonic() + request.timeout_s
    if request.method in ("auto", "exhaustive"):
        result, pool = _screen_and_refine(request, twin, deadline, progress, on_priced)
    else:
        result, pool = _study(request, twin, deadline, progress)
    if pool is None:
        return result
    ranking, interrupted = ranked(
        request, pool, result.tried, twin, simulate=not result.interrupted and not _over(deadline)
    )
    return replace(result, ranking=ranking, cost=ranking.cost, interrupted=result.interrupted or interrupted)


def _over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() > deadline


def _screen_and_refine(
    request: SearchRequest, twin: Twin, deadline: float | None, progress: Progress | None, on_priced: OnPriced | None
) -> tuple[SearchResult, Candidates | None]:
    """The result so far, and the strategies to rank (None where nothing fits)."""
    screened = screen(request, twin, deadline=deadline, progress=progress, on_priced=on_priced)
    result = SearchResult(
        request=request, counts=screened.counts, screen_s=screened.seconds, timed_out=screened.timed_out,
        interrupted=screened.interrupted,
    )  # fmt: skip
    shortlist = screened.shortlist
    if shortlist is None or (not shortlist.feasible and not screened.interrupted):
        looked_at = shortlist.screened if shortlist else 0
        return replace(result, enumerated=looked_at, misses=_misses(request, twin, deadline)), None
    result = replace(result, enumerated=shortlist.screened, feasible=shortlist.feasible)
    if not shortlist.feasible:
        return result, None
    if len(request.devices) > 1:
        result = _with_sizes(result, shortlist.sizes, twin)
    pool = Candidates.concatenate(
        [shortlist.groups, shortlist.overall, shortlist.front, shortlist.safe, shortlist.plain]
    )
    if request.method == "auto" and not (screened.timed_out or screened.interrupted):
        return _refined(result, shortlist, pool, twin, deadline, progress)
    return result, pool


def _refined(
    result: SearchResult, shortlist: Shortlist, pool: Candidates, twin: Twin, deadline: float | None,
    progress: Progress | None,
) -> tuple[SearchResult, Candidates]:  # fmt: skip
    """With the fine moves around the best, a study where one is asked for, and balanced layers."""
    request = result.request
    origins = origins_around(pool, shortlist.almost)
    around = Candidates.concatenate([origins, shortlist.front])
    places = max(request.top, SIMULATED)
    found = [sweep_around(request, around, pool, twin, places, deadline=deadline, progress=progress)]
    if request.runs_study and not (found[0].timed_out or found[0].interrupted):
        from autodeploy.search.study import refine_around  # Optuna: only where a study runs

        found.append(refine_around(request, origins, shortlist.front, twin, deadline, progress))
    result = _told(result, found)
    new = [each.candidates for each in found if each.candidates is not None]
    pool = Candidates.concatenate([pool, *new])
    result = replace(result, tried=(origins, *new) if request.trials != 0 else ())
    return (result, pool) if result.interrupted else _with_balanced_layers(result, pool, twin)


def _told(result: SearchResult, found: list[Refined]) -> SearchResult:
    """What is said of the refinement: of a study, where there was one, its trials."""
    return replace(
        result,
        refined=found[-1].trials,
        refine_s=sum(each.seconds for each in found),
        timed_out=any(each.timed_out for each in found),
        interrupted=any(each.interrupted for each in found),
    )


def _with_sizes(result: SearchResult, best: Candidates, twin: Twin) -> SearchResult:
    request = result.request
    unknown = np.full(len(best), np.nan)
    cost = twin.evaluate(request.case, best.batch)
    return replace(result, sizes=Ranking(best, best.step_s, unknown), sizes_cost=cost)


def _with_balanced_layers(result: SearchResult, pool: Candidates, twin: Twin) -> tuple[SearchResult, Candidates]:
    """The best of the best groups once more with balanced layers, where a layout is allowed, fits and costs less; both are
    replayed."""
    request = result.request
    if twin.balanced is None or request.axes.layout is not None:
        return result, pool
    leaders = rank(replace(request, top=BALANCED), pool, pool.step_s, pool.step_s).candidates
    rows, found = twin.balanced(request, leaders.batch)
    if not len(rows):
        return result, pool
    priced = twin.screened(request, found)
    better = twin.valid(request, found) & priced.feasible & (priced.score < leaders.score[rows])
    placed = priced.take(better)
    return replace(result, tried=(*result.tried, leaders, placed)), Candidates.concatenate([pool, placed])


def _misses(request: SearchRequest, twin: Twin, deadline: float | None) -> list[NearMiss]:
    """What comes closest, of all there is: also of what the screen has left out as too large for the card."""
    screened = screen(replace(request, keep_oversized=True), twin, deadline=deadline)
    return nearest(request, screened.shortlist.misses, twin) if screened.shortlist else []


def _study(
    request: SearchRequest, twin: Twin, deadline: float | None, progress: Progress | None
) -> tuple[SearchResult, Candidates | None]:
    """As above, for a study alone."""
    from autodeploy.search.study import study_space

    counts, began = WalkCounts(), time.monotonic()
    found = study_space(request, twin, counts, deadline, progress)
    seconds = time.monotonic() - began - found.seconds
    result = _told(SearchResult(request=request, counts=counts, screen_s=seconds), [found])
    if found.candidates is None:
        return result, None
    pool = found.candidates
    result = replace(result, enumerated=len(pool), feasible=int(pool.feasible.sum()), tried=(pool,))
    if not result.feasible:
        order = np.argsort(pool.reserved_bytes, kind="stable")
        return replace(result, misses=nearest(request, pool.take(order), twin)), None
    return result, pool
