"""From a case and its priced strategies to the question that ``decide`` answers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from autodeploy.decide.belief import Evidence
from autodeploy.decide.coverage import evidence_texts, runs_behind
from autodeploy.decide.memory import MemoryModel
from autodeploy.decide.parameters import Parameters, committed
from autodeploy.decide.ranking import FIT_PROBABILITY, Question
from autodeploy.decide.rows import Rows, rows_of
from autodeploy.report.likeness import device_family
from cost_models.case import Case
from cost_models.records import record
from cost_models.strategies import F64, StrategyBatch


@record(eq=False)
class Asked:
    """How a decision is asked for. ``evidence``: the user's own runs; ``memory``: what they say of memory (None: the stack's)."""

    fit_probability: float = FIT_PROBABILITY
    seed: int = 0
    evidence: Evidence | None = None
    memory: MemoryModel | None = None
    by_cards: bool = False  # card-hours are ranked, not hours


def is_moe(case: Case) -> bool:
    return any(half.is_moe for kind in case.model.kinds for half in kind.feed_forwards)


def grows(case: Case) -> bool:
    """A dropless mixture of experts whose routing is real: its worst step is not its first."""
    stack = case.workload.stack
    return is_moe(case) and not stack.forced_balance and not stack.moe_capacity_factor


def case_memory(case: Case, parameters: Parameters | None = None) -> MemoryModel:
    """The probit of the runs on cards of its family, or the pooled one; over a run where memory grows."""
    models = (parameters or committed()).memory
    model = models.get(device_family(case.hardware), models["pooled"])
    return model.over_a_run() if grows(case) else model


def case_rows(case: Case, batch: StrategyBatch, time_s: Mapping[str, F64], step_s: F64, peak_bytes: F64) -> Rows:
    """The strategies; ``step_s`` (replayed where it could be) is what the causes are made to sum to, by the bubble."""
    times = {cause: np.asarray(seconds, dtype=float) for cause, seconds in time_s.items()}
    listed = np.sum(list(times.values()), axis=0)
    bubble = times.get("bubble", np.zeros(len(batch))) + step_s - listed
    times["bubble"] = np.maximum(bubble, 0.0)
    scale = step_s / np.sum(list(times.values()), axis=0)  # a replay shorter than the causes along the critical rank
    return rows_of(
        batch, {cause: seconds * scale for cause, seconds in times.items()}, peak_bytes, case.hardware.usable_bytes
    )


def question_of(case: Case, rows: Rows, devices: ArrayLike, asked: Asked) -> Question:
    """Everything the decision needs, from the committed fit and what the user measured."""
    parameters = committed()
    card, kind = case.hardware.name, "moe" if is_moe(case) else "dense"
    return Question(
        rows=rows,
        model=parameters.model.on_card(card),
        memory=asked.memory or case_memory(case, parameters),
        evidence_runs=runs_behind(parameters.coverage, rows, card, kind),
        evidence=asked.evidence,
        weight=np.asarray(devices, dtype=float) if asked.by_cards else None,
        fit_probability=asked.fit_probability,
        seed=asked.seed,
    )


def texts_of(case: Case, question: Question) -> list[str]:
    """What stands behind each row, for people."""
    kind = "moe" if is_moe(case) else "dense"
    return evidence_texts(question.model, question.rows, question.evidence_runs, case.hardware.name, kind)


def validated(case: Case) -> bool:
    """Measured problems of its kind (dense, MoE) are enough to say that the ranking's probabilities are right."""
    from autodeploy.decide.priors import ENOUGH_PROBLEMS

    return not is_moe(case) or committed().moe_problems >= ENOUGH_PROBLEMS
