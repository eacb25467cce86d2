"""What an error model says of the ranked rows, as the keys of their entries and as one line of advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from autodeploy.decide.question import texts_of, validated
from autodeploy.decide.ranking import Decision, decide
from cost_models.case import Case as PricedCase

if TYPE_CHECKING:
    from autodeploy.report.entry import Case
    from autodeploy.search.rank import Ranking

HALF_AND_DOUBLE = (0.5, 2.0)
TO_SETTLE = 3  # short runs that the advice names


def decision_keys(case: PricedCase, decision: Decision) -> list[dict[str, Any]]:
    """The keys that each entry gets, in the order of the decision."""
    texts = texts_of(case, decision.question)
    first_step = decision.question.memory.first_step_probability(decision.question.rows.usage)
    return [
        {
            "expected_step_time_s": float(decision.expected_s[i]),
            "expected_low_s": float(decision.low_s[i]),
            "expected_high_s": float(decision.high_s[i]),
            "fit_probability": float(decision.fit_probability[i]),
            "first_step_fit_probability": float(first_step[i]),
            "best_probability": float(decision.best_probability[i]),
            "tie": bool(decision.tie[i]),
            "departures": int(decision.departures[i]),
            "evidence_runs": int(decision.question.evidence_runs[i]),
            "evidence": texts[i],
        }
        for i in range(len(decision.expected_s))
    ]


def decision_document(case: Case, ranking: Ranking | None) -> dict[str, Any] | None:
    """The document's ``decision``: what cannot be told apart, what is fastest, and what to run."""
    if ranking is None or ranking.decision is None or not len(ranking.candidates):
        return None
    decision = ranking.decision
    tied = [int(i) + 1 for i in np.flatnonzero(decision.tie)]
    steady, moved = _at_half_and_double(decision)
    return {
        "advice": advice(decision, tied, validated(case.priced), steady),
        "tied_rows": tied,
        "fastest": None if decision.fastest is None else decision.fastest + 1,
        "validated": validated(case.priced),
        "first_at_half_and_double": moved,
    }


def advice(decision: Decision, tied: Sequence[int], valid: bool, steady: bool) -> str:
    """One line: which rows cannot be told apart, and which to run."""
    if decision.fastest is None:
        return (
            f"No row fits with {decision.question.fit_probability:.0%}: the first is the least unlikely of the fast. "
            "Try its first step before anything else, or give it fewer sequences, recompute or more cards."
        )
    fastest = decision.fastest + 1
    if len(tied) > 1:
        said = (
            f"{_listed(tied)} cannot be told apart (expected fastest: {fastest}). Run {tied[0]}, the simplest of them"
        )
        runs = _to_settle(decision, tied)
        said += f"; short runs of {', '.join(str(row) for row in runs)} settle it (autodeploy trials)."
    else:
        said = f"Run {fastest}: no other row ties with it."
    if not steady:
        said += " At half or double of the variances that no run informs another row comes first."
    if not valid:
        said += " Ranking of mixtures of experts: not validated."
    return said


def _listed(rows: Sequence[int]) -> str:
    if len(rows) > 2 and rows[-1] - rows[0] == len(rows) - 1:
        return f"Rows {rows[0]}-{rows[-1]}"
    return "Rows " + ", ".join(str(row) for row in rows[:-1]) + f" and {rows[-1]}"


def _to_settle(decision: Decision, tied: Sequence[int]) -> list[int]:
    """The simplest and the likeliest fastest of the tie."""
    by_chance = sorted(tied, key=lambda row: -decision.best_probability[row - 1])
    return list(dict.fromkeys([tied[0], *by_chance]))[:TO_SETTLE]


def _at_half_and_double(decision: Decision) -> tuple[bool, list[int]]:
    """Whether the first row stays the first when what was only believed is halved and doubled, and which row is first then."""
    first = []
    for factor in HALF_AND_DOUBLE:
        model = decision.question.model.with_priors_scaled(factor)
        first.append(int(decide(replace(decision.question, model=model)).order[0]) + 1)
    return all(row == 1 for row in first), first
