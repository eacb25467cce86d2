"""A search from question to answer: screen, refine, simulate, rank."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from autodeploy.search.candidates import Candidates, best_first, objective, price
from autodeploy.search.nearest import NearMiss, nearest
from autodeploy.search.rank import Ranking, rank
from autodeploy.search.request import Evaluate, Progress, SearchRequest, SimulateBatch
from autodeploy.search.screen import OnPriced, Screened, screen
from autodeploy.search.space import Space, SpaceCounts
from cost_models.strategies import F64, StrategyBatch

if TYPE_CHECKING:
    from cost_models.step import StepCost

REFINED_STRATEGIES = 48  # best strategies that the study moves around, and that the simulator replays


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchResult:
    """``ranking`` is empty where nothing fits; then ``misses`` says what comes closest."""

    request: SearchRequest
    ranking: Ranking | None
    cost: StepCost | None  # of the ranked strategies, in order
    misses: list[NearMiss] = field(default_factory=list)
    counts: SpaceCounts
    enumerated: int = 0
    feasible: int = 0
    screen_s: float = 0.0
    refined: int = 0
    refine_s: float = 0.0
    timed_out: bool = False


def search(
    request: SearchRequest,
    *,
    evaluate: Evaluate,
    space: Space,
    valid: Callable[[SearchRequest, StrategyBatch], np.ndarray],
    refiner: SimulateBatch | None = None,
    progress: Progress | None = None,
    on_priced: OnPriced | None = None,
) -> SearchResult:
    """Ranks the strategies of ``request``. ``refiner`` is the event simulator, where there is one."""
    deadline = None if request.timeout_s is None else time.monotonic() + request.timeout_s
    if request.method in ("tpe", "nsga2", "random"):
        return _study_alone(request, evaluate, space, refiner, deadline, progress)
    screened = screen(request, evaluate, space, deadline=deadline, progress=progress, on_priced=on_priced)
    shortlist = screened.shortlist
    if shortlist is None or not len(shortlist.overall):
        misses = nearest(request, shortlist.misses, evaluate, space) if shortlist else []
        return _result(request, screened, None, None, misses=misses)
    found = [shortlist.front, shortlist.overall] if request.objective == "pareto" else [shortlist.groups, shortlist.overall]
    pool = Candidates.concatenate(found)
    refined, refine_s, timed_out = 0, 0.0, screened.timed_out
    if request.method == "auto" and not timed_out:
        began = time.monotonic()
        pool, refined, timed_out = _refine_around(
            request, pool, shortlist.almost, evaluate, valid, refiner, deadline, progress
        )
        refine_s = time.monotonic() - began
    ranking = _rank(request, pool, evaluate, refiner if request.method == "auto" else None)
    cost = evaluate(request.model, request.hardware, request.workload, ranking.candidates.batch)
    return _result(request, screened, ranking, cost, refined=refined, refine_s=refine_s, timed_out=timed_out)


def _refine_around(
    request: SearchRequest,
    pool: Candidates,
    almost: Candidates,
    evaluate: Evaluate,
    valid: Callable[[SearchRequest, StrategyBatch], np.ndarray],
    refiner: SimulateBatch | None,
    deadline: float | None,
    progress: Progress | None,
) -> tuple[Candidates, int, bool]:
    """The pool and what a study finds around the best of it, and around what is faster still and almost fits."""
    from autodeploy.search.moves import free_moves, landscape_around
    from autodeploy.search.refine import refine

    if request.trials == 0:
        return pool, 0, False
    best = pool.take(best_first(pool)[:REFINED_STRATEGIES])
    faster = almost.take(almost.score < best.score[-1])
    origins = Candidates.concatenate([best, faster.take(best_first(faster)[: REFINED_STRATEGIES // 2])])
    landscape = landscape_around(
        origins.batch, request.workload.global_batch, lambda batch: valid(request, batch), **free_moves(request.axes)
    )
    found = refine(
        request, landscape, _pricer(request, evaluate, refiner), deadline=deadline, progress=progress
    )
    if found.candidates is None:
        return pool, 0, found.timed_out
    tried = price(request, found.candidates.batch, evaluate)
    return Candidates.concatenate([pool, tried]), found.trials, found.timed_out


def _study_alone(
    request: SearchRequest,
    evaluate: Evaluate,
    space: Space,
    refiner: SimulateBatch | None,
    deadline: float | None,
    progress: Progress | None,
) -> SearchResult:
    from autodeploy.search.catalogue import landscape_of_space
    from autodeploy.search.refine import refine

    counts = SpaceCounts()
    began = time.monotonic()
    landscape = landscape_of_space(request, space, counts)
    walked_s = time.monotonic() - began
    if landscape is None or request.trials == 0:
        return SearchResult(request=request, ranking=None, cost=None, counts=counts, screen_s=walked_s)
    found = refine(request, landscape, _pricer(request, evaluate, refiner), deadline=deadline, progress=progress)
    assert found.candidates is not None
    pool = price(request, found.candidates.batch, evaluate)
    common = {
        "request": request, "counts": counts, "enumerated": len(pool), "feasible": int(pool.feasible.sum()),
        "screen_s": walked_s, "refined": found.trials, "refine_s": found.seconds, "timed_out": found.timed_out,
    }  # fmt: skip
    if not pool.feasible.any():
        order = np.argsort(pool.reserved_bytes, kind="stable")
        misses = nearest(request, pool.take(order), evaluate, space)
        return SearchResult(ranking=None, cost=None, misses=misses, **common)  # type: ignore[arg-type]
    ranking = _rank(request, pool, evaluate, refiner)
    cost = evaluate(request.model, request.hardware, request.workload, ranking.candidates.batch)
    return SearchResult(ranking=ranking, cost=cost, **common)  # type: ignore[arg-type]


def _pricer(
    request: SearchRequest, evaluate: Evaluate, refiner: SimulateBatch | None
) -> Callable[[StrategyBatch], Candidates]:
    """What a study sees: simulated time where there is a simulator, else screened."""

    def priced(batch: StrategyBatch) -> Candidates:
        candidates = price(request, batch, evaluate)
        simulated = _simulate(request, candidates, refiner)
        return _with_time(request, candidates, simulated)

    return priced


def _simulate(request: SearchRequest, candidates: Candidates, refiner: SimulateBatch | None) -> F64:
    """Simulated seconds [N]; nan where there is no simulator, where it declines, or where the strategy does not fit."""
    seconds = np.full(len(candidates), np.nan)
    rows = np.flatnonzero(candidates.feasible)
    if refiner is not None and len(rows):
        found = refiner(request.model, request.hardware, request.workload, candidates.take(rows).batch)
        if found is not None:
            seconds[rows] = found
    return seconds


def _with_time(request: SearchRequest, candidates: Candidates, simulated_s: F64) -> Candidates:
    step_s = np.where(np.isnan(simulated_s), candidates.step_s, simulated_s)
    score = objective(request.objective, candidates.batch, step_s, candidates.reserved_bytes)
    return replace(candidates, step_s=step_s, score=score)


def _rank(request: SearchRequest, pool: Candidates, evaluate: Evaluate, refiner: SimulateBatch | None) -> Ranking:
    """Ranks by screened time; then, with a simulator, the leaders once more by simulated time."""
    leaders = rank(replace(request, top=max(request.top, REFINED_STRATEGIES)), pool, pool.step_s, pool.step_s).candidates
    simulated = _simulate(request, leaders, refiner)
    return rank(request, _with_time(request, leaders, simulated), leaders.step_s, simulated)


def _result(
    request: SearchRequest, screened: Screened, ranking: Ranking | None, cost: StepCost | None, **more: object
) -> SearchResult:
    shortlist = screened.shortlist
    return SearchResult(
        request=request,
        ranking=ranking,
        cost=cost,
        counts=screened.counts,
        enumerated=shortlist.priced if shortlist else 0,
        feasible=shortlist.feasible if shortlist else 0,
        screen_s=screened.seconds,
        **{"timed_out": screened.timed_out, **more},  # type: ignore[arg-type]
    )
