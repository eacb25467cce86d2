"""The strategies that the simulator replays, and their order by its times and by what is expected of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autodeploy.search.candidates import Candidates, best_first, first_of_equals, identities_of
from autodeploy.search.decided import decided, with_safe
from autodeploy.search.rank import Ranking, rank
from autodeploy.search.request import SearchRequest
from autodeploy.search.twin import Twin, with_time
from cost_models.strategies import F64

SIMULATED = 36  # leaders that the simulator replays before they are ranked
TRIED = 12  # best of what was moved around, and of what was found there, whatever their groups: replayed too
KEPT = 12  # of these: the simulator, not the closed form, says which


def ranked(
    request: SearchRequest, pool: Candidates, tried: Sequence[Candidates], twin: Twin, *, simulate: bool = True
) -> tuple[Ranking, bool]:
    """Ranks by screened time; then, with a simulator, the leaders once more by simulated time; then, with an error model, by
    what is expected of them. Also whether Ctrl-C cut the replay short: then the prices are those of the closed form."""
    leaders = leaders_of(request, pool, twin)
    every = _with_best(request, leaders, tried) if tried and simulate else leaders
    simulated, interrupted = _replayed(request, every, twin) if simulate else (np.full(len(every), np.nan), False)
    timed = with_time(request, every, simulated)
    kept = _kept(timed, leaders)
    priced = Ranking(timed, every.step_s, simulated).take(kept)
    return _ordered(request, priced, twin), interrupted


def leaders_of(request: SearchRequest, pool: Candidates, twin: Twin) -> Candidates:
    """The first by closed form, and with an error model the first of what is likely enough to fit."""
    leaders = rank(replace(request, top=max(request.top, SIMULATED)), pool, pool.step_s, pool.step_s).candidates
    return leaders if twin.decide is None else with_safe(request, leaders, pool, SIMULATED)


def _with_best(request: SearchRequest, leaders: Candidates, tried: Sequence[Candidates]) -> Candidates:
    """The leaders and the best of each part of what was tried, each once, fastest first."""
    both = Candidates.concatenate([leaders, *(_best(part.take(part.feasible)) for part in tried)])
    every = replace(request, top=max(len(both), 1), all_variants=True, objective="time")
    return rank(every, both, both.step_s, both.step_s).candidates


def _best(candidates: Candidates) -> Candidates:
    once = candidates.take(first_of_equals(candidates.batch))
    return once.take(best_first(once)[:TRIED])


def _kept(timed: Candidates, leaders: Candidates) -> np.ndarray:
    """The leaders, and of the others the best once they are replayed; in the order given."""
    known = set(identities_of(leaders.batch))
    lead = np.array([name in known for name in identities_of(timed.batch)], dtype=bool)
    others = np.flatnonzero(~lead)
    others = others[best_first(timed.take(others))[:KEPT]]
    return np.sort(np.concatenate([np.flatnonzero(lead), others]))


def _replayed(request: SearchRequest, candidates: Candidates, twin: Twin) -> tuple[F64, bool]:
    try:
        return twin.simulated_s(request, candidates), False
    except KeyboardInterrupt:
        return np.full(len(candidates), np.nan), True


def _ordered(request: SearchRequest, priced: Ranking, twin: Twin) -> Ranking:
    """With where the time of each goes; priced once, for the decision and for what is printed."""
    if twin.decide is None:
        found = rank(request, priced.candidates, priced.screened_s, priced.simulated_s)
        return replace(found, cost=twin.evaluate(request.case, found.candidates.batch))
    cost = twin.evaluate(request.case, priced.candidates.batch)
    return decided(request, replace(priced, cost=cost), twin.decide)
