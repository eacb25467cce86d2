"""The parts that a search is given: how to price, what to price, what is allowed, and the simulator where there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from autodeploy.decide.ranking import Decision
from autodeploy.search.candidates import Candidates, objective, price
from autodeploy.search.request import Bound, Evaluate, Price, SearchRequest, SimulateBatch
from autodeploy.search.space import LadderSpace, Space
from cost_models.strategies import F64, I64, Bool, Ladder, StrategyBatch

if TYPE_CHECKING:
    from cost_models.step import Bounds, StepCost

Valid = Callable[[SearchRequest, StrategyBatch], Bool]
Decide = Callable[[SearchRequest, Candidates, "StepCost"], Decision]  # candidates, and where their time goes
# Strategies with their layers balanced, where that is shorter, and the rows that they are of.
Balanced = Callable[[SearchRequest, StrategyBatch], tuple[I64, StrategyBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Pure functions. Tests give small ones; ``real_parts.py`` gives the real ones."""

    evaluate: Evaluate
    space: Space
    valid: Valid
    price: Price | None = None  # as ``evaluate``, without causes
    bounds: Bound | None = None  # exact memory and a lower bound of the time of bases x ladder ...
    laddered: Callable[[SearchRequest], LadderSpace] | None = None  # ... and that space: without both, all is priced
    refiner: SimulateBatch | None = None
    balanced: Balanced | None = None
    decide: Decide | None = None  # the error model over the leaders; None: the order is that of the predictions

    def screened(self, request: SearchRequest, batch: StrategyBatch) -> Candidates:
        """Closed-form price."""
        return price(request, batch, self.price or self.evaluate)

    def bounded(
        self, request: SearchRequest, bases: StrategyBatch, ladder: Ladder, most_bytes: float = float("inf")
    ) -> Bounds:
        """Of every base under every rung; without ``bounds`` the prices themselves."""
        if self.bounds is not None:
            return self.bounds(request.case, bases, ladder, most_bytes)
        from cost_models.step import Bounds

        cost = (self.price or self.evaluate)(request.case, ladder.expand(bases))
        shape = (len(bases), len(ladder))
        return Bounds(
            least_step_s=cost.step_s.reshape(shape), peak_reserved_bytes=cost.peak_reserved_bytes.reshape(shape)
        )

    def simulated_s(self, request: SearchRequest, candidates: Candidates) -> F64:
        """Simulated seconds [N]; nan where there is no simulator, where it declines, or where the strategy does not fit."""
        seconds = np.full(len(candidates), np.nan)
        rows = np.flatnonzero(candidates.feasible)
        if self.refiner is not None and len(rows):
            found = self.refiner(request.case, candidates.take(rows).batch)
            if found is not None:
                seconds[rows] = found
        return seconds


def with_time(request: SearchRequest, candidates: Candidates, simulated_s: F64) -> Candidates:
    """The candidates with simulated times where they are numbers."""
    step_s = np.where(np.isnan(simulated_s), candidates.step_s, simulated_s)
    score = objective(request.objective, candidates.batch, step_s, candidates.reserved_bytes)
    return replace(candidates, step_s=step_s, score=score)
