"""One strategy: parsed, checked, priced, replayed and judged. Where a search walks a space, this prices what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autodeploy.errors import InputError
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import parse_strategy
from autodeploy.strategy.rules import require_valid
from cost_models.case import Case
from cost_models.strategies import StrategyBatch

if TYPE_CHECKING:
    from autodeploy.decide.question import Asked
    from autodeploy.decide.ranking import Decision
    from cost_models.step import StepCost


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


def decision_on(asked: Asked, case: Case, batch: StrategyBatch, cost: StepCost, replayed: float | None) -> Decision:
    """What is expected of one priced strategy."""
    from autodeploy.decide.question import case_rows, question_of
    from autodeploy.decide.ranking import decide

    step_s = cost.step_s if replayed is None else np.array([replayed])
    rows = case_rows(case, batch, cost.time_s, step_s, cost.peak_reserved_bytes)
    return decide(question_of(case, rows, batch.devices, asked))
