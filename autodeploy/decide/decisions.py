"""The measured problems as a benchmark of decisions, as the JSON of ``accuracy --decisions``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autodeploy.decide.benchmark import TRIALS, Verdict, fold_verdicts, source_models, source_verdicts
from autodeploy.decide.calibration import always_sure, brier, calibration_table
from autodeploy.decide.memory_data import died, fit_memory_models, memory_of, usage
from autodeploy.decide.one_run import measured_one
from autodeploy.decide.problems import Judged, problems_of
from autodeploy.decide.simulated import simulated_regret

WITHIN = 0.01
RULES = ("predicted", "expected", "simplest")
MIN_FIT, FOLDS = 0.9, 3


def decisions_document(judged: Sequence[Judged], background: Sequence[Judged] = ()) -> dict[str, Any]:
    """The key ``decisions``, over the problems of ``judged``; ``background``: runs of other sources that are fitted to as well.
    ``regret`` is that of the leave-source-out protocol: a user's stack is one not seen before."""
    problems = problems_of(judged)
    if not problems:
        return {"problems": 0, "rows": 0}
    mine = {one.case.run.group for one in judged}
    background = [one for one in background if one.case.run.group not in mine]
    folds, models = fold_verdicts(judged, background), source_models(judged, background)
    apart = source_verdicts(judged, models)
    return {
        "problems": len(problems),
        "rows": sum(len(problem.rows) for problem in problems),
        "moe_problems": sum(problem.kind == "moe" for problem in problems),
        "folds": _protocol(folds),
        "leave_source_out": _protocol(apart),
        "regret": _regrets(apart),
        "measured_one": measured_one(problems, [models[problem.source] for problem in problems]),
        "fit": {
            "folds": _fit_figures(_fit_folds(judged, background)),
            "leave_source_out": _fit_figures(_fit_apart(judged, background)),
        },
        "simulated": simulated_regret(problems, [models[problem.source] for problem in problems]),
    }


def _protocol(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    pairs = [one.pairs for one in verdicts]
    return {
        "brier": brier(pairs),
        "brier_by_problem": brier(pairs, weigh_problems=True),
        "always_sure": always_sure(pairs),
        "pairs": int(sum(len(one.said) for one in pairs)),
        "calibration": calibration_table(pairs),
        "regret": _regrets(verdicts),
    }


def _regrets(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Pooled, by source, and for problems of which no fit has seen a row."""
    sources = dict.fromkeys(one.problem.source for one in verdicts)
    of_source = {name: _regret([one for one in verdicts if one.problem.source == name]) for name in sources}
    unseen = [one for one in verdicts if not one.problem.seen]
    return _regret(verdicts) | {"by_source": of_source, "unfitted": _regret(unseen) if unseen else None}


def _regret(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    found: dict[str, Any] = {"problems": len(verdicts)}
    for rule in RULES:
        found[rule] = _figures([one.regret[rule] for one in verdicts])
        found[rule]["departures"] = float(np.mean([one.departures[rule] for one in verdicts]))
    parts: tuple[tuple[str, Callable[[Verdict], Mapping[int, float]]], ...] = (
        ("top_k", lambda one: one.top_k), ("trials_k", lambda one: one.trials_k),
    )  # fmt: skip
    for name, part in parts:
        by_k = {k: [part(one)[k] for one in verdicts if k in part(one)] for k in TRIALS}
        found[name] = {str(k): _figures(values) | {"problems": len(values)} for k, values in by_k.items() if values}
    return found


def _figures(regrets: Sequence[float]) -> dict[str, Any]:
    return {"mean": float(np.mean(regrets)), "within_1pct": float(np.mean(np.array(regrets) <= WITHIN))}


# --------------------------------------------------------------------------------------------------- memory


def _verdicts(judged: Sequence[Judged]) -> list[Judged]:
    return [one for one in judged if one.case.run.complete and died(one) is not None]


def _fit_folds(judged: Sequence[Judged], background: Sequence[Judged]) -> list[tuple[float, bool]]:
    """(P(fits) said, died): three folds of families; a source's own model where the other folds hold enough of it."""
    families = sorted({one.case.run.family for one in judged})
    order = np.random.default_rng(0).permutation(len(families))
    fold = {family: int(order[i]) % FOLDS for i, family in enumerate(families)}
    found = []
    for held in range(FOLDS):
        models = fit_memory_models([*(one for one in judged if fold[one.case.run.family] != held), *background])
        for one in _verdicts(judged):
            if fold[one.case.run.family] == held:
                model = memory_of(models, one.case.run.group)
                found.append((float(model.first_step_probability(np.array([usage(one)]))[0]), bool(died(one))))
    return found


def _fit_apart(judged: Sequence[Judged], background: Sequence[Judged]) -> list[tuple[float, bool]]:
    """The same, with the pooled model of all other sources."""
    found = []
    for source in dict.fromkeys(one.case.run.group for one in _verdicts(judged)):
        pooled = fit_memory_models([one for one in (*judged, *background) if one.case.run.group != source])["pooled"]
        for one in _verdicts(judged):
            if one.case.run.group == source:
                found.append((float(pooled.first_step_probability(np.array([usage(one)]))[0]), bool(died(one))))
    return found


def _fit_figures(said: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Are the sure right, and are they many?"""
    p, dead = np.array([one for one, _ in said]), np.array([one for _, one in said])

    def share(values: Any) -> float | None:
        return float(np.mean(values)) if len(values) else None

    return {
        "runs": len(p), "died": int(dead.sum()),
        "said_95_ran": share(~dead[p >= 0.95]), "said_95": int((p >= 0.95).sum()),
        "said_5_ran": share(~dead[p <= 0.05]), "said_5": int((p <= 0.05).sum()),
        "ran_said_90": share(p[~dead] >= MIN_FIT), "died_said_50": share(p[dead] <= 0.5),
    }  # fmt: skip
