"""The search with the real parts: cost models, space of strategies, rules, and the simulator where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from autodeploy.search.request import Progress, SearchRequest, SimulateBatch
from autodeploy.search.run import SearchResult, search
from autodeploy.search.screen import OnPriced
from autodeploy.search.space import WalkCounts
from autodeploy.search.twin import Twin
from autodeploy.strategy.rules import check
from cost_models.strategies import I64, Bool, StrategyBatch

if TYPE_CHECKING:
    from autodeploy.decide.question import Asked
    from autodeploy.decide.ranking import Decision
    from autodeploy.search.candidates import Candidates
    from autodeploy.strategy.space import Space
    from cost_models.step import StepCost


def standard_laddered(request: SearchRequest) -> Space:
    """The strategies of any numbers of cards as bases x ladder."""
    from autodeploy.strategy.space import Space

    return Space(
        request.model, request.hardware, request.workload, request.backend, request.axes,
        audit=request.audit, keep_oversized=request.keep_oversized,
    )  # fmt: skip


def standard_space(request: SearchRequest, devices: int, counts: WalkCounts) -> Iterator[StrategyBatch]:
    """The strategies of one number of cards, written out."""
    from autodeploy.strategy.space import CHUNK, expanded

    plan = standard_laddered(request).plan((devices,), CHUNK)
    try:
        yield from expanded(plan)
    finally:
        counts.add(plan.counts)


def rules_allow(request: SearchRequest, batch: StrategyBatch) -> Bool:
    """Whether a strategy breaks no rule of the back end, [N]."""
    return np.asarray(check(request.model, request.hardware, request.workload, batch, request.backend) == 0)


def balanced_layouts(request: SearchRequest, strategies: StrategyBatch) -> tuple[I64, StrategyBatch]:
    """The strategies with balanced layers, where that is shorter and the back end can write it, and their rows."""
    from autodeploy.replay.balanced import balanced

    return balanced(request.case, strategies, request.backend)


def run_search(
    request: SearchRequest,
    *,
    refiner: SimulateBatch | None = None,
    simulated: bool = True,
    progress: Progress | None = None,
    on_priced: OnPriced | None = None,
    asked: Asked | None = None,
) -> SearchResult:
    """``search`` with the cost models, the space, the rules and the event simulator (or ``refiner``) of this package;
    ``simulated`` False ranks by the closed form alone. ``asked``: how to decide over what is found (None: the defaults)."""
    from autodeploy.decide.question import Asked
    from autodeploy.replay import simulated_step_s
    from cost_models.step import bounds, evaluate, price

    twin = Twin(
        evaluate=evaluate,
        price=price,
        space=standard_space,
        laddered=standard_laddered,
        bounds=bounds,
        valid=rules_allow,
        refiner=(refiner or simulated_step_s) if simulated else None,
        balanced=balanced_layouts,
        decide=partial(decision_over, asked or Asked(seed=request.seed)),
    )
    return search(with_safe_usage(request, asked or Asked()), twin, progress=progress, on_priced=on_priced)


def with_safe_usage(request: SearchRequest, asked: Asked) -> SearchRequest:
    """Told up to which predicted peak a strategy is likely enough to fit."""
    from autodeploy.decide.question import case_memory

    memory = asked.memory or case_memory(request.case)
    return replace(request, safe_usage=min(memory.usage_at(asked.fit_probability), 1.0))


def decision_over(asked: Asked, request: SearchRequest, candidates: Candidates, cost: StepCost) -> Decision:
    """The decision over ``candidates``; ``cost``: where their time goes by the closed form."""
    from autodeploy.decide.question import case_rows, question_of
    from autodeploy.decide.ranking import decide

    rows = case_rows(request.case, candidates.batch, cost.time_s, candidates.step_s, candidates.reserved_bytes)
    by_cards = replace(asked, by_cards=request.objective in ("tokens", "cost"))
    return decide(question_of(request.case, rows, candidates.batch.devices, by_cards))
