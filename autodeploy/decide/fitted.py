"""Making the committed fit (``scripts/fit_decisions.py``): what it is of, and what it records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from autodeploy.accuracy.held_out import SOURCES
from autodeploy.decide.coverage import coverage_document, with_coverage
from autodeploy.decide.covered_runs import coverage_of
from autodeploy.decide.fit import contrast, fit_model, log_ratios, standard_errors, with_common
from autodeploy.decide.memory import memory_document
from autodeploy.decide.memory_data import fit_memory_models
from autodeploy.decide.parameters import SCHEMA
from autodeploy.decide.problems import Judged, complete_problems, problems_of

DIGITS = 5


def fitted_document(judged: Sequence[Judged]) -> dict[str, Any]:
    """The fit to all runs but those of the sources put aside."""
    judged = [one for one in judged if one.case.run.group not in SOURCES]
    problems = complete_problems(problems_of(judged))
    covered = coverage_of(judged)
    model = with_common(with_coverage(fit_model(problems), covered), log_ratios(judged))
    fields = asdict(model)
    fields.pop("card_factor")
    return _rounded({
        "schema": SCHEMA,
        "data": {
            "problems": len(problems), "rows": sum(len(p.rows) for p in problems),
            "moe_problems": sum(p.kind == "moe" for p in problems), "problems_no_fit_has_seen": sum(not p.seen for p in problems),
            "sources": sorted({p.source for p in problems}), "left_out": sorted(SOURCES),
        },
        "error_model": fields,
        "standard_error_of_log_sd": standard_errors(model, [contrast(p) for p in problems]),
        "memory": memory_document(fit_memory_models(judged)),
        "coverage": coverage_document(covered),
    })  # fmt: skip


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
