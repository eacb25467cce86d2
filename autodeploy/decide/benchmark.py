"""Measured problems as a benchmark of decisions: what was said, what was chosen, and what that cost.

Two protocols. ``folds``: three folds of families (so that runs of one model, which a source may have composed from one
another, stay together); the error model is fitted to two of them, and a problem of the third is believed given the measured
problems of its own machine and stack in those two. ``leave_source_out``: fitted to all other sources, nothing of the
problem's own stack is known. Neither sees the pairs it is judged on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autodeploy.decide.belief import Belief, Learned, believe, learn
from autodeploy.decide.calibration import Pairs, pairs_of
from autodeploy.decide.coverage import with_coverage
from autodeploy.decide.covered_runs import coverage_of
from autodeploy.decide.departures import departures
from autodeploy.decide.draws import draw_step_s, faster_probability
from autodeploy.decide.fit import evidence_of, fit_model, log_ratios, remembered, with_common
from autodeploy.decide.model import ErrorModel
from autodeploy.decide.problems import Judged, Problem, complete_problems, problems_of
from autodeploy.decide.ranking import TIES_AT
from autodeploy.decide.trials import choice_after, next_run, outlook_of
from cost_models.strategies import F64, I64

FOLDS = 3
TRIALS = (1, 2, 3, 5)
DRAWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdict:
    """What came of one problem. Regrets are fractions of the measured best."""

    problem: Problem
    pairs: Pairs
    regret: dict[str, float]  # by rule
    departures: dict[str, int]
    top_k: dict[int, float]
    trials_k: dict[int, float]


def fold_verdicts(judged: Sequence[Judged], background: Sequence[Judged] = (), seed: int = 0) -> list[Verdict]:
    """``background``: runs that are fitted to and not judged."""
    problems, others = problems_of(judged), problems_of(background)
    families = sorted({problem.runs[0].family for problem in problems})
    order = np.random.default_rng(seed).permutation(len(families))
    fold = {family: int(order[i]) % FOLDS for i, family in enumerate(families)}
    contrasts = remembered()
    found = []
    for held in range(FOLDS):
        known = [p for p in problems if fold[p.runs[0].family] != held] + others
        seen = [one for one in (*judged, *background) if fold.get(one.case.run.family, -1) != held]
        model = with_coverage(fit_model(known, contrasts=contrasts), coverage_of(seen))
        learned: dict[tuple[str, str], Learned | None] = {}
        for problem in problems:
            if fold[problem.runs[0].family] == held:
                stack = (problem.source, problem.runs[0].device)
                if stack not in learned:
                    learned[stack] = _same_stack(model, stack, known)
                found.append(judge(model, problem, learned[stack]))
    return found


def source_models(judged: Sequence[Judged], background: Sequence[Judged] = ()) -> dict[str, ErrorModel]:
    """For each source the error model of all others."""
    sources = dict.fromkeys(problem.source for problem in problems_of(judged))
    judged = [*judged, *background]
    problems, contrasts = problems_of(judged), remembered()
    models = {}
    for source in sources:
        others = [one for one in judged if one.case.run.group != source]
        model = fit_model([p for p in problems if p.source != source], shares=False, contrasts=contrasts)
        models[source] = with_common(with_coverage(model, coverage_of(others)), log_ratios(others))
    return models


def source_verdicts(judged: Sequence[Judged], models: Mapping[str, ErrorModel]) -> list[Verdict]:
    return [judge(models[problem.source], problem) for problem in problems_of(judged)]


def _same_stack(model: ErrorModel, stack: tuple[str, str], known: Sequence[Problem]) -> Learned | None:
    """The measured problems of that source and card: other cases of one machine and stack."""
    alike = [p for p in complete_problems(known) if (p.source, p.runs[0].device) == stack]
    return learn(model, evidence_of(alike, model.noise_sd, first_case=1)) if alike else None


def judge(model: ErrorModel, problem: Problem, evidence: Learned | None = None) -> Verdict:
    """Every rule on one problem, of whose rows all ran."""
    belief = believe(model, problem.rows, evidence)
    draws_s = draw_step_s(belief, draws=DRAWS)
    measured = problem.measured_s
    regret = measured / measured.min() - 1.0
    away = departures(problem.rows)
    chosen = _choices(belief, draws_s, problem, away)
    ks = [k for k in TRIALS if k <= len(measured)]
    return Verdict(
        problem=problem,
        pairs=pairs_of(faster_probability(draws_s), measured),
        regret={rule: float(regret[row]) for rule, row in chosen.items()},
        departures={rule: int(away[row]) for rule, row in chosen.items()},
        top_k={k: float(regret[_best_of_top(problem, k)]) for k in ks},
        trials_k=_after_trials(model, belief, problem, ks),
    )


def _choices(belief: Belief, draws_s: F64, problem: Problem, away: I64) -> dict[str, int]:
    expected = belief.expected_s
    fastest = int(np.argmin(expected))
    tie = (draws_s < draws_s[:, fastest : fastest + 1]).mean(axis=0) >= TIES_AT
    tie[fastest] = True
    simplest = np.lexsort((expected, np.round(problem.rows.usage, 3), np.where(tie, away, np.inf)))
    return {"predicted": int(np.argmin(problem.rows.step_s)), "expected": fastest, "simplest": int(simplest[0])}


def _best_of_top(problem: Problem, k: int) -> int:
    """The measured best of the ``k`` rows predicted fastest."""
    top = np.argsort(problem.rows.step_s, kind="stable")[:k]
    return int(top[np.argmin(problem.measured_s[top])])


def _after_trials(model: ErrorModel, belief: Belief, problem: Problem, ks: Sequence[int]) -> dict[int, float]:
    """Regret after k runs, each chosen given the results of those before it."""
    outlook = outlook_of(belief)
    order = np.argsort(outlook.mean, kind="stable").tolist()
    regret = problem.measured_s / problem.measured_s.min() - 1.0
    measured: dict[int, float] = {}
    found = {}
    for k in range(1, max(ks, default=0) + 1):
        row = next_run(outlook, model.noise_sd, order, tuple(measured))
        measured[row] = float(problem.measured_s[row])
        outlook = outlook.observed(row, float(np.log(measured[row])), model.noise_sd)
        if k in ks:
            found[k] = float(regret[choice_after(outlook, measured)])
    return found
