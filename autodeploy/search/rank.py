"""The final order: one row for each group (TP, PP, VPP, EP, ETP, CP), or every variant."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from autodeploy.decide.ranking import Decision
from autodeploy.search.candidates import IDENTITY, Candidates, best_first, layout_identities, micro_batch_groups
from autodeploy.search.request import SearchRequest
from autodeploy.search.shortlist import pareto_front, rank_within_group
from cost_models.strategies import F64, I64


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Strategies in order; both times where the simulator has run (nan where it has not). ``decision`` [N] in the same
    order, and each row's place by prediction, where an error model has looked at them."""

    candidates: Candidates
    screened_s: F64
    simulated_s: F64
    decision: Decision | None = None
    predicted_rank: I64 | None = None

    def take(self, index: NDArray[np.intp]) -> Ranking:
        """The strategies at ``index``, in that order."""
        return Ranking(
            self.candidates.take(index), self.screened_s[index], self.simulated_s[index],
            None if self.decision is None else self.decision.take(index),
            None if self.predicted_rank is None else self.predicted_rank[index],
        )  # fmt: skip


def rank(request: SearchRequest, candidates: Candidates, screened_s: F64, simulated_s: F64) -> Ranking:
    """``candidates.step_s`` is what decides: simulated where it can be, else screened."""
    index = np.arange(len(candidates))
    index = index[candidates.feasible]
    index = index[best_first(candidates.take(index))]
    index = index[_first_of_equals(candidates.take(index))]
    if request.objective == "pareto":
        index = index[_front_rows(candidates.take(index))]
    elif not request.all_variants:
        index = index[rank_within_group(candidates.take(index)) == 0]
    index = index[: request.top]
    return Ranking(candidates.take(index), screened_s[index], simulated_s[index])


def _front_rows(candidates: Candidates) -> np.ndarray:
    marked = replace(candidates, score=np.arange(len(candidates), dtype=np.float64))
    return pareto_front(marked).score.astype(np.intp)


def _first_of_equals(candidates: Candidates) -> np.ndarray:
    """Mask of strategies not seen before in the list: the screen and the study may both have found one."""
    seen: set[tuple[object, ...]] = set()
    mask = np.zeros(len(candidates), dtype=bool)
    for i, row in enumerate(identities(candidates)):
        mask[i] = row not in seen
        seen.add(row)
    return mask


def identities(candidates: Candidates) -> list[tuple[object, ...]]:
    """One hashable value per strategy; 0 and pp as micro-batch group are the same thing."""
    batch = candidates.batch
    columns = [getattr(batch, name).tolist() for name in IDENTITY]
    layouts = layout_identities(batch)
    groups = micro_batch_groups(batch).tolist()
    return list(zip(*columns, groups, [layouts[i] for i in batch.layout.tolist()], strict=True))
