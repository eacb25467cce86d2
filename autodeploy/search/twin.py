"""The parts that a search is given: how to price, what to price, what is allowed, and the simulator where there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from autodeploy.decide.ranking import Decision
from autodeploy.search.candidates import Candidates, objective, price
from autodeploy.search.request import Bound, Evaluate, Price, SearchRequest, SimulateBatch
from autodeploy.search.space import LadderSpace, Space
from cost_models.strategies import F64, Bool, StrategyBatch

Valid = Callable[[SearchRequest, StrategyBatch], Bool]
Decide = Callable[[SearchRequest, Candidates], Decision]
Balanced = Callable[[SearchRequest, StrategyBatch], StrategyBatch | None]  # one strategy with its layers balanced


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Pure functions. Tests give small ones; ``real_parts.py`` gives the real ones."""

    evaluate: Evaluate
    space: Space
    valid: Valid
    refiner: SimulateBatch | None = None
    balanced: Balanced | None = None
    decide: Decide | None = None  # the error model over the leaders; None: the order is that of the predictions
    price: Price | None = None  # as ``evaluate``, without causes
    laddered: Callable[[SearchRequest], LadderSpace] | None = None  # the space as bases x ladder ...
    bounds: Bound | None = None  # ... and what bounds it; without these two every strategy is priced

    def screened(self, request: SearchRequest, batch: StrategyBatch) -> Candidates:
        """Closed-form price."""
        return price(request, batch, self.price or self.evaluate)

    def refined(self, request: SearchRequest, batch: StrategyBatch) -> Candidates:
        """Simulated time where there is a simulator and it answers, else closed form."""
        candidates = self.screened(request, batch)
        return with_time(request, candidates, self.simulated_s(request, candidates))

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
