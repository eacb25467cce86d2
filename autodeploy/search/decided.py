"""The order over the error model: which variant stands for a group, who is shown, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from autodeploy.search.candidates import Candidates
from autodeploy.search.rank import Ranking, rank
from autodeploy.search.request import SearchRequest
from autodeploy.search.shortlist import near_best, plainest, rank_within_group
from cost_models.strategies import F64, I64, Bool

if TYPE_CHECKING:
    from autodeploy.search.twin import Decide

PLAIN = 64  # groups at most whose plainest variant is replayed
RISKY_FRAC = 0.25  # of the rows shown: kept for what is predicted fast and may not fit


def with_safe(request: SearchRequest, leaders: Candidates, pool: Candidates, count: int) -> Candidates:
    """The leaders, those of what is likely enough to fit (a group's fastest variant often is the one at the edge), and the
    plainest of these (the first of a tie is the simplest)."""
    safe = pool.take(pool.reserved_bytes <= request.safe_bytes)
    if not len(safe):
        return leaders
    wide = replace(request, top=max(request.top, count))
    first = rank(wide, safe, safe.step_s, safe.step_s).candidates
    plain = plainest(near_best(safe), min(wide.top, PLAIN))
    both = Candidates.concatenate([leaders, first, plain])
    return rank(
        replace(wide, top=len(both), all_variants=True, objective="time"), both, both.step_s, both.step_s
    ).candidates


def decided(request: SearchRequest, priced: Ranking, decide: Decide) -> Ranking:
    """``priced`` (any order) as it is shown: by the error model, or with ``rank_by`` "predicted" by prediction."""
    candidates = priced.candidates
    assert priced.cost is not None
    decision = decide(request, candidates, priced.cost)
    everything = rank(
        replace(request, top=len(candidates), all_variants=True), candidates, _numbered(candidates), priced.simulated_s
    )
    predicted = everything.screened_s.astype(np.intp)  # rows in the order of prediction
    if request.rank_by == "predicted" or request.objective in ("memory", "pareto"):
        shown = predicted if _ungrouped(request) else predicted[rank_within_group(candidates.take(predicted)) == 0]
        shown = shown[: request.top]
    else:
        order = decision.order
        order = order if _ungrouped(request) else order[rank_within_group(candidates.take(order)) == 0]
        likely = decision.fit_probability >= decision.question.fit_probability
        expected = decision.expected_s * decision.question.weights
        shown = _cut(order, likely, _places(predicted), expected, request.top)
    listed = replace(priced, decision=decision, predicted_rank=_places(predicted)).take(shown)
    assert listed.predicted_rank is not None
    return replace(listed, predicted_rank=_places(np.argsort(listed.predicted_rank, kind="stable")))


def _ungrouped(request: SearchRequest) -> bool:
    return request.all_variants or request.objective == "pareto"


def _numbered(candidates: Candidates) -> NDArray[np.float64]:
    return np.arange(len(candidates), dtype=np.float64)


def _places(order: NDArray[np.intp]) -> I64:
    """1-based place of each row in ``order``."""
    places = np.empty(int(order.max()) + 1 if len(order) else 0, dtype=np.int64)
    places[order] = np.arange(1, len(order) + 1)
    return places


def _cut(order: NDArray[np.intp], likely: Bool, predicted: I64, expected: F64, top: int) -> NDArray[np.intp]:
    """The first ``top`` rows, of which some are kept for what may not fit but is predicted faster than the first. Where the
    tie is longer than the list, the row that is expected to be fastest is its last."""
    safe, risky = order[likely[order]], order[~likely[order]]
    faster = risky[predicted[risky] < (predicted[safe[0]] if len(safe) else np.inf)]
    room = min(len(faster), int(RISKY_FRAC * top)) if len(safe) else top
    kept = safe[: top - room].copy()
    if len(kept):
        fastest = safe[np.argmin(expected[safe])]
        kept[-1] = kept[-1] if fastest in kept else fastest
    return np.concatenate([kept, risky[: top - len(kept)]])
