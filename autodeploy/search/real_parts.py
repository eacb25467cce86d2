"""The search with the real parts: cost models, space of strategies, rules, and the simulator where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from autodeploy.errors import InputError
from autodeploy.search.request import Progress, SearchRequest, SimulateBatch
from autodeploy.search.run import SearchResult, search
from autodeploy.search.screen import OnPriced
from autodeploy.search.space import SpaceCounts
from autodeploy.search.twin import Twin
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import parse_strategy
from autodeploy.strategy.rules import check, require_valid
from cost_models.case import Case
from cost_models.strategies import Bool, StrategyBatch

if TYPE_CHECKING:
    from cost_models.step import StepCost


def standard_space(request: SearchRequest, devices: int, counts: SpaceCounts) -> Iterator[StrategyBatch]:
    """The strategies of one number of cards."""
    from autodeploy.strategy.space import enumerate_space

    found = enumerate_space(
        request.model,
        request.hardware,
        request.workload,
        devices,
        request.backend,
        request.axes,
        audit=request.audit,
        keep_oversized=request.keep_oversized,
    )
    try:
        yield from found
    finally:
        counts.core += found.counts.core
        counts.pruned += sum(found.counts.pruned.values())
        counts.rejected.update(found.counts.rejected)


def rules_allow(request: SearchRequest, batch: StrategyBatch) -> Bool:
    """Whether a strategy breaks no rule of the back end, [N]."""
    return np.asarray(check(request.model, request.hardware, request.workload, batch, request.backend) == 0)


def balanced_layout(request: SearchRequest, strategy: StrategyBatch) -> StrategyBatch | None:
    """One strategy with balanced layers, as the back end can write them."""
    from autodeploy.replay.balanced import balanced

    found = balanced(request.case, strategy, request.backend)
    return found if found is not None and rules_allow(request, found).all() else None


def run_search(
    request: SearchRequest,
    *,
    refiner: SimulateBatch | None = None,
    simulated: bool = True,
    progress: Progress | None = None,
    on_priced: OnPriced | None = None,
) -> SearchResult:
    """``search`` with the cost models, the space, the rules and the event simulator (or ``refiner``) of this package;
    ``simulated`` False ranks by the closed form alone."""
    from autodeploy.replay import simulated_step_s
    from cost_models.step import evaluate

    twin = Twin(
        evaluate=evaluate,
        space=standard_space,
        valid=rules_allow,
        refiner=(refiner or simulated_step_s) if simulated else None,
        balanced=balanced_layout,
    )
    return search(request, twin, progress=progress, on_priced=on_priced)


def price_one(text: str, case: Case, devices: int, backend: str) -> tuple[StrategyBatch, StepCost]:
    """One strategy in the notation, priced by rank. InputError where it is malformed or breaks a rule."""
    from cost_models.step import evaluate

    batch = strategy_to_batch(parse_strategy(text, backend), case.model, devices, backend, case.workload.global_batch)
    micro_batch, dp = int(batch.micro_batch[0]), int(batch.dp[0])
    if case.workload.global_batch % (micro_batch * dp):
        allowed = f"a multiple of MBS x DP = {micro_batch} x {dp} = {micro_batch * dp}"
        raise InputError(
            "--global-batch", case.workload.global_batch, allowed, "change the batch, the micro-batch or DP"
        )
    require_valid(case.model, case.hardware, case.workload, batch, backend, devices=devices)
    return batch, evaluate(case, batch, per_rank=True)


def replayed_s(case: Case, batch: StrategyBatch) -> float | None:
    """Seconds of the replayed step of a batch of one, as ``search`` ranks by; None where the simulator declines."""
    from autodeploy.replay import simulated_step_s

    seconds = float(simulated_step_s(case, batch)[0])
    return None if np.isnan(seconds) else seconds
