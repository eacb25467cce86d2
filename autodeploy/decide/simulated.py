"""Regret where the truth is drawn from the error model: spaces larger than the measured ones.

The rows of several measured problems of one source and card, with their predicted times brought to one mean, stand for a
large space; the truth is a draw of the belief over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autodeploy.decide.belief import believe
from autodeploy.decide.draws import draw_step_s
from autodeploy.decide.model import ErrorModel
from autodeploy.decide.plan_trials import NORMAL
from autodeploy.decide.problems import Problem
from autodeploy.decide.rows import Rows
from autodeploy.decide.trials import choice_after, next_run, outlook_of

ROWS, TRUTHS, KS = 100, 40, (1, 2, 3, 5)


def simulated_regret(problems: Sequence[Problem], models: Sequence[ErrorModel], seed: int = 0) -> dict[str, Any]:
    """Mean regret after k trials, by the fastest k and by ``trials``, over drawn truths."""
    space = _space(problems)
    model = models[0]
    belief = believe(model, space)
    outlook = outlook_of(belief)
    order = np.argsort(outlook.mean, kind="stable").tolist()
    truths = draw_step_s(replace(belief, degrees=NORMAL), seed, TRUTHS)
    top: dict[int, list[float]] = {k: [] for k in KS}
    planned: dict[int, list[float]] = {k: [] for k in KS}
    for truth in truths:
        regret = truth / truth.min() - 1.0
        now = outlook
        measured: dict[int, float] = {}
        for k in range(1, max(KS) + 1):
            row = next_run(now, model.noise_sd, order, tuple(measured))
            measured[row] = float(truth[row])
            now = now.observed(row, float(np.log(truth[row])), model.noise_sd)
            if k in KS:
                planned[k].append(float(regret[choice_after(now, measured)]))
                top[k].append(float(regret[min(order[:k], key=lambda i: truth[i])]))
    return {
        "rows": len(space),
        "truths": TRUTHS,
        "top_k": {str(k): {"mean": float(np.mean(top[k]))} for k in KS},
        "trials_k": {str(k): {"mean": float(np.mean(planned[k]))} for k in KS},
    }


def _space(problems: Sequence[Problem]) -> Rows:
    """Rows of the largest problems of one source, brought to one mean time."""
    source = max(problems, key=lambda one: len(one.rows)).source
    alike = sorted((p for p in problems if p.source == source), key=lambda one: -len(one.rows))
    parts = []
    for problem in alike:
        mean = float(np.mean(problem.rows.step_s))
        parts.append(replace(problem.rows, time_s=problem.rows.time_s / mean))
        if sum(len(part) for part in parts) >= ROWS:
            break
    return Rows.concatenate(parts)
