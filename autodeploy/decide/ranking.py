"""The decision over a list of strategies: expected times, ties, the simplest of the tie, and who is likely to fit.

A pure function of what is believed; ``search``, ``estimate`` and ``trials`` share it.

Axes: N rows, D draws.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodeploy.decide.belief import Evidence, Learned, believe
from autodeploy.decide.departures import departures
from autodeploy.decide.draws import best_probability, draw_step_s, quantile
from autodeploy.decide.memory import MemoryModel
from autodeploy.decide.model import ErrorModel
from autodeploy.decide.rows import Rows
from cost_models.records import record
from cost_models.strategies import F64, I64, Bool

TIES_AT = 0.4  # P(it is faster than the fastest) from which on a row ties with it
FIT_PROBABILITY = 0.9  # rows less likely to fit are ranked below the others


@record(eq=False)
class Question:
    """What is to be decided. ``evidence_runs`` [N]: measured runs behind each row; ``weight`` [N]: what a second of its step
    counts for (cards, where card-hours are ranked)."""

    rows: Rows
    model: ErrorModel
    memory: MemoryModel
    evidence_runs: I64
    evidence: Evidence | Learned | None = None
    weight: F64 | None = None
    fit_probability: float = FIT_PROBABILITY
    seed: int = 0

    @property
    def weights(self) -> F64:
        return np.ones(len(self.rows)) if self.weight is None else self.weight

    def take(self, index: NDArray[np.intp]) -> Question:
        weight = None if self.weight is None else self.weight[index]
        return replace(self, rows=self.rows.take(index), evidence_runs=self.evidence_runs[index], weight=weight)


@record(eq=False)
class Decision:
    """All [N], in the order of the question; ``order`` lists rows as they are to be printed, ``fastest`` is a row (or None)."""

    order: I64
    expected_s: F64
    low_s: F64  # 5th percentile
    high_s: F64  # 95th percentile
    fit_probability: F64
    best_probability: F64
    tie: Bool
    departures: I64
    fastest: int | None
    question: Question

    def take(self, index: NDArray[np.intp]) -> Decision:
        """The rows at ``index`` in that order; ``order`` then lists them as they are, and ``fastest`` is the fastest of them:
        a group may be shown by the simplest of its variants instead."""
        names = ("expected_s", "low_s", "high_s", "fit_probability", "best_probability", "tie", "departures")
        arrays: dict[str, Any] = {name: getattr(self, name)[index] for name in names}
        question = self.question.take(index)
        fastest = _fastest(arrays["expected_s"] * question.weights, arrays["fit_probability"], question.fit_probability)
        return replace(self, **arrays, order=np.arange(len(index)), fastest=fastest, question=question)


def _fastest(expected: F64, fits: F64, least: float) -> int | None:
    """The row with the least expected time of those likely enough to fit; None where there is none."""
    likely = fits >= least
    return int(np.argmin(np.where(likely, expected, np.inf))) if likely.any() else None


def decide(question: Question) -> Decision:
    """Expected times exactly, probabilities over one set of draws."""
    rows = question.rows
    belief = believe(question.model, rows, question.evidence)
    draws_s = draw_step_s(belief, question.seed)
    fits = question.memory.fit_probability(rows.usage)
    drawn_fits = question.memory.draw_fits(rows.usage, len(draws_s), question.seed)
    weighted, expected = draws_s * question.weights, belief.expected_s * question.weights
    likely = fits >= question.fit_probability
    fastest = _fastest(expected, fits, question.fit_probability)
    tie = np.zeros(len(rows), dtype=bool)
    if fastest is not None:
        first = weighted[:, fastest : fastest + 1]
        tie = likely & ((weighted < first).mean(axis=0) + 0.5 * (weighted == first).mean(axis=0) >= TIES_AT)
        tie[fastest] = True
    away = departures(rows)
    return Decision(
        order=_order(likely, tie, expected, away, question),
        expected_s=belief.expected_s,
        low_s=quantile(draws_s, 0.05),
        high_s=quantile(draws_s, 0.95),
        fit_probability=fits,
        best_probability=best_probability(weighted, drawn_fits),
        tie=tie,
        departures=away,
        fastest=fastest,
        question=question,
    )


def _order(likely: Bool, tie: Bool, expected: F64, away: I64, question: Question) -> I64:
    """Likely to fit first; of them the tie, simplest first (then head-room, then measured runs); then by expected time."""
    n = len(expected)
    keys = (
        np.arange(n),
        np.where(tie, 0.0, expected),
        np.where(tie, -question.evidence_runs, 0),
        np.where(tie, np.round(question.rows.usage, 3), 0.0),
        np.where(tie, away, 0),
        ~tie,
        ~likely,
    )
    return np.lexsort(keys)
