"""What one run of the user's own tells of the others: the check that ``--measured`` works, on measured problems.

A problem's first choice is taken as measured; the other rows are then predicted anew. Once as they are, and once with all
measured times multiplied, as on another cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autodeploy.decide.belief import Evidence, believe
from autodeploy.decide.draws import draw_step_s
from autodeploy.decide.model import ErrorModel
from autodeploy.decide.problems import Problem
from cost_models.strategies import F64

ANOTHER_CLUSTER = 1.3
BAND = (0.05, 0.95)
DRAWS = 1000


def measured_one(problems: Sequence[Problem], models: Sequence[ErrorModel]) -> dict[str, Any]:
    """Median error of the other runs before and after, with and without the factor; ``models``: of each problem, fitted without
    its source."""
    plain = [_one(p, m, 1.0) for p, m in zip(problems, models, strict=True)]
    moved = [_one(p, m, ANOTHER_CLUSTER) for p, m in zip(problems, models, strict=True)]
    before, after = (np.concatenate([np.abs(one[i]) for one in moved]) for i in (0, 1))
    same_before, same_after = (np.concatenate([np.abs(one[i]) for one in plain]) for i in (0, 1))
    return {
        "factor": ANOTHER_CLUSTER,
        "median_error_before": float(np.median(before)),
        "median_error_after": float(np.median(after)),
        "unmoved_median_error_before": float(np.median(same_before)),
        "unmoved_median_error_after": float(np.median(same_after)),
        "band": [*BAND],
        "coverage": float(np.concatenate([one[2] for one in moved]).mean()),
        "unmoved_coverage": float(np.concatenate([one[2] for one in plain]).mean()),
        "band_width_before": float(np.median(np.concatenate([one[3] for one in plain]))),
        "band_width_after": float(np.median(np.concatenate([one[4] for one in plain]))),
    }


def _one(problem: Problem, model: ErrorModel, factor: float) -> tuple[F64, F64, F64, F64, F64]:
    """Errors before and after, whether the band holds the measurement, and its width over the prediction before and after;
    all of the other rows."""
    measured, rows = problem.measured_s * factor, problem.rows
    first = int(np.argmin(rows.step_s))
    others = np.delete(np.arange(len(rows)), first)
    rest = rows.take(others)
    evidence = run_evidence(model, rows.take(slice(first, first + 1)), float(measured[first]))
    belief = believe(model, rest, evidence)
    low, high = np.quantile(draw_step_s(belief, draws=DRAWS), BAND, axis=0)
    wide = np.quantile(draw_step_s(believe(model, rest), draws=DRAWS), BAND, axis=0)
    truth = measured[others]
    held = ((low <= truth) & (truth <= high)).astype(float)
    widths = (wide[1] - wide[0]) / rest.step_s, (high - low) / rest.step_s
    return rest.step_s / truth - 1.0, belief.expected_s / truth - 1.0, held, *widths


def run_evidence(model: ErrorModel, row: Any, measured_s: float, noise_sd: float | None = None) -> Evidence:
    """One run of the case itself."""
    return Evidence(
        rows=row, log_ratio=np.array([np.log(measured_s / row.step_s[0])]),
        noise_sd=np.array([model.noise_sd if noise_sd is None else noise_sd]), shared=np.ones(1), case=np.zeros(1),
    )  # fmt: skip
