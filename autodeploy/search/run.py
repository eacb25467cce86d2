"""A search from question to answer: screen, refine, simulate, rank."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from autodeploy.search.candidates import Candidates, best_first
from autodeploy.search.decided import decided, with_safe
from autodeploy.search.nearest import NearMiss, nearest
from autodeploy.search.rank import Ranking, rank
from autodeploy.search.request import Progress, SearchRequest
from autodeploy.search.screen import OnPriced, screen
from autodeploy.search.space import WalkCounts
from autodeploy.search.twin import Twin, with_time

if TYPE_CHECKING:
    from cost_models.step import StepCost

SIMULATED = 36  # leaders that the simulator replays before they are ranked
TRIED = 12  # strategies that a study found fastest: the simulator, not the closed form, says so
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
    tried: Candidates | None = None  # what a study was told, in its times
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
    ranking = _rank(result, pool, twin, simulate=not result.interrupted and not _over(deadline))
    cost = twin.evaluate(request.case, ranking.candidates.batch)
    return replace(result, ranking=ranking, cost=cost)


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
        from autodeploy.search.study import refine_around  # Optuna: only where a study runs

        found = refine_around(request, shortlist, pool, twin, deadline, progress)
        result = replace(result, refined=found.trials, refine_s=found.seconds, timed_out=found.timed_out,
                         interrupted=found.interrupted, tried=found.tried)  # fmt: skip
        pool = pool if found.candidates is None else Candidates.concatenate([pool, found.candidates])
        if not found.interrupted:
            pool = _with_balanced_layers(request, pool, twin)
    return result, pool


def _with_sizes(result: SearchResult, best: Candidates, twin: Twin) -> SearchResult:
    request = result.request
    unknown = np.full(len(best), np.nan)
    cost = twin.evaluate(request.case, best.batch)
    return replace(result, sizes=Ranking(best, best.step_s, unknown), sizes_cost=cost)


def _with_balanced_layers(request: SearchRequest, pool: Candidates, twin: Twin) -> Candidates:
    """The best of the best groups once more with balanced layers, where a layout is allowed, fits and costs less."""
    if twin.balanced is None or request.axes.layout is not None:
        return pool
    leaders = rank(replace(request, top=BALANCED), pool, pool.step_s, pool.step_s).candidates
    kept = [pool]
    for i in range(len(leaders)):
        origin = leaders.take(slice(i, i + 1))
        found = twin.balanced(request, origin.batch)
        if found is None or not twin.valid(request, found)[0]:
            continue
        priced = twin.screened(request, found)
        if priced.feasible[0] and priced.score[0] < origin.score[0]:
            kept.append(priced)
    return Candidates.concatenate(kept)


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
    result = SearchResult(
        request=request, counts=counts, refined=found.trials, refine_s=found.seconds, timed_out=found.timed_out,
        screen_s=time.monotonic() - began - found.seconds, interrupted=found.interrupted, tried=found.tried,
    )  # fmt: skip
    if found.candidates is None:
        return result, None
    pool = found.candidates
    result = replace(result, enumerated=len(pool), feasible=int(pool.feasible.sum()))
    if not result.feasible:
        order = np.argsort(pool.reserved_bytes, kind="stable")
        return replace(result, misses=nearest(request, pool.take(order), twin)), None
    return result, pool


def _rank(result: SearchResult, pool: Candidates, twin: Twin, *, simulate: bool = True) -> Ranking:
    """Ranks by screened time; then, with a simulator, the leaders once more by simulated time; then, with an error model, by
    what is expected of them."""
    request = result.request
    leaders = rank(replace(request, top=max(request.top, SIMULATED)), pool, pool.step_s, pool.step_s).candidates
    if twin.decide is not None:
        leaders = with_safe(request, leaders, pool, SIMULATED)
    if result.tried is not None and simulate:
        leaders = _with_tried(request, leaders, result.tried, twin)
    simulated = twin.simulated_s(request, leaders) if simulate else np.full(len(leaders), np.nan)
    timed = with_time(request, leaders, simulated)
    if twin.decide is None:
        return rank(request, timed, leaders.step_s, simulated)
    return decided(request, Ranking(timed, leaders.step_s, simulated), twin.decide)


def _with_tried(request: SearchRequest, leaders: Candidates, tried: Candidates, twin: Twin) -> Candidates:
    """The leaders and what a study found fastest, each once, in closed-form prices."""
    fitting = tried.take(tried.feasible)
    best = fitting.take(best_first(fitting)[:TRIED])
    if not len(best):
        return leaders
    both = Candidates.concatenate([leaders, twin.screened(request, best.batch)])
    every = replace(request, top=len(both), all_variants=True, objective="time")
    return rank(every, both, both.step_s, both.step_s).candidates
