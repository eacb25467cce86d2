"""The final order: one row for each group (TP, PP, VPP, EP, ETP, CP), or every variant."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autodeploy.decide.ranking import Decision
from autodeploy.search.candidates import Candidates, best_first, first_of_equals, identities_of
from autodeploy.search.request import SearchRequest
from autodeploy.search.shortlist import pareto_front, rank_within_group
from cost_models.strategies import F64, I64

if TYPE_CHECKING:
    from cost_models.step import StepCost


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Strategies in order; both times where the simulator has run (nan where it has not). ``decision`` [N] in the same
    order, and each row's place by prediction, where an error model has looked at them. ``cost``: where time and memory go."""

    candidates: Candidates
    screened_s: F64
    simulated_s: F64
    decision: Decision | None = None
    predicted_rank: I64 | None = None
    cost: StepCost | None = None

    def take(self, index: NDArray[np.intp]) -> Ranking:
        """The strategies at ``index``, in that order."""
        return Ranking(
            self.candidates.take(index), self.screened_s[index], self.simulated_s[index],
            None if self.decision is None else self.decision.take(index),
            None if self.predicted_rank is None else self.predicted_rank[index],
            None if self.cost is None else _rows(self.cost, index),
        )  # fmt: skip


def _rows(cost: StepCost, index: NDArray[np.intp]) -> StepCost:
    """The strategies at ``index`` of a priced batch."""

    def at(value: Any) -> Any:
        if isinstance(value, dict):
            return {cause: array[index] for cause, array in value.items()}
        return None if value is None else value[index]

    return replace(cost, **{each.name: at(getattr(cost, each.name)) for each in fields(cost)})


def rank(request: SearchRequest, candidates: Candidates, screened_s: F64, simulated_s: F64) -> Ranking:
    """``candidates.step_s`` is what decides: simulated where it can be, else screened."""
    index = np.arange(len(candidates))
    index = index[candidates.feasible]
    index = index[best_first(candidates.take(index))]
    index = index[first_of_equals(candidates.take(index).batch)]
    if request.objective == "pareto":
        index = index[_front_rows(candidates.take(index))]
    elif not request.all_variants:
        index = index[rank_within_group(candidates.take(index)) == 0]
    index = index[: request.top]
    return Ranking(candidates.take(index), screened_s[index], simulated_s[index])


def _front_rows(candidates: Candidates) -> np.ndarray:
    marked = replace(candidates, score=np.arange(len(candidates), dtype=np.float64))
    return pareto_front(marked).score.astype(np.intp)


def identities(candidates: Candidates) -> list[tuple[object, ...]]:
    """One hashable value per strategy; 0 and pp as micro-batch group are the same thing."""
    return identities_of(candidates.batch)
