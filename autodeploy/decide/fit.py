"""Fitting the error model to measured problems: variances by restricted maximum likelihood, then what cases share.

Starts from the priors; a variance that fewer than five problems inform keeps its prior. Only complete rows are fitted to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from autodeploy.decide import priors
from autodeploy.decide.belief import Evidence
from autodeploy.decide.likelihood import Contrasts, contrasts_of, informed_by, minus_log_likelihood
from autodeploy.decide.model import ErrorModel, card_family
from autodeploy.decide.problems import Judged, Problem, complete_problems
from autodeploy.decide.rows import AXES, Rows
from cost_models.strategies import F64, Bool

WIDTH = 0.5  # of the normal prior on each log sd: weak beside a hundred problems, enough to keep two that trade apart
ITERATIONS = 60
SHARES = (0.3, 0.5, 0.7, 0.9)  # tried for what cases of a stack have in common
LARGEST_BLOCK = 300  # rows of a source that decide on the shares
OFFSET_SD = 1.0  # of a problem's own offset: wide, so that it decides on nothing
AXIS_SPREAD = 0.3  # a problem informs an axis where its rows' root mean square is this many steps


def fit_model(
    problems: Sequence[Problem], *, shares: bool = True,
    contrasts: Callable[[Problem], Contrasts] | None = None,
) -> ErrorModel:  # fmt: skip
    """Variances and degrees of ``problems``, and with ``shares`` what the cases of a stack share; ``contrasts`` where
    they are at hand."""
    problems = complete_problems(problems)
    if not problems:
        return ErrorModel()
    found = [(contrasts or contrast)(problem) for problem in problems]
    causes = problems[0].rows.causes
    names = [*causes, *(f"axis {axis}" for axis in AXES), "near", "noise"]
    start = np.log([*(priors.CAUSE_SD.get(c, priors.OTHER_CAUSE_SD) for c in causes), *priors.AXIS_SD.values(),
                    priors.NEAR_SD, priors.NOISE_SD])  # fmt: skip
    least = np.array([priors.INFORMING_SPREAD] * len(causes) + [AXIS_SPREAD] * len(AXES) + [0.0, 0.0])
    free = informed_by(found, least) >= priors.ENOUGH_PROBLEMS
    log_sd, degrees = _maximise(found, start, free)
    sd = dict(zip(names, np.exp(log_sd).tolist(), strict=True))
    model = ErrorModel(
        cause_sd={cause: sd[cause] for cause in causes},
        axis_sd={axis: sd[f"axis {axis}"] for axis in AXES},
        near_sd=sd["near"],
        noise_sd=sd["noise"],
        degrees=degrees,
        by_prior=tuple(name for name, moved in zip(names, free, strict=True) if not moved),
        optimism=optimism(problems),
        card_problems=_by_card(problems),
    )
    return _with_shares(model, problems) if shares else model


def standard_errors(model: ErrorModel, found: Sequence[Contrasts]) -> dict[str, float]:
    """Of the log of each fitted standard deviation: inverse Hessian of the penalised likelihood, by differences of its slope."""
    names = [*model.cause_sd, *(f"axis {axis}" for axis in model.axis_sd), "near", "noise"]
    log_sd = np.log([*model.cause_sd.values(), *model.axis_sd.values(), model.near_sd, model.noise_sd])
    free = np.array([name not in model.by_prior for name in names])
    step, hessian = 1e-3, []
    for i in np.flatnonzero(free):
        slopes = []
        for sign in (1.0, -1.0):
            moved = log_sd.copy()
            moved[i] += sign * step
            slopes.append(minus_log_likelihood(moved, float(np.log(model.degrees)), found)[1][free])
        hessian.append((slopes[0] - slopes[1]) / (2 * step))
    curvature = np.array(hessian) + np.eye(int(free.sum())) / WIDTH**2
    errors = np.sqrt(np.maximum(np.diag(np.linalg.inv(0.5 * (curvature + curvature.T))), 0.0))
    return dict(zip([name for name, moved in zip(names, free, strict=True) if moved], errors.tolist(), strict=True))


def contrast(problem: Problem) -> Contrasts:
    return contrasts_of(problem.rows, problem.log_ratio)


def remembered() -> Callable[[Problem], Contrasts]:
    """``contrast``, worked out once for each problem however many fits it is part of."""
    known: dict[tuple[str, ...], Contrasts] = {}

    def found(problem: Problem) -> Contrasts:
        key = tuple(run.id for run in problem.runs)
        if key not in known:
            known[key] = contrast(problem)
        return known[key]

    return found


def _maximise(found: Sequence[Contrasts], start: F64, free: Bool) -> tuple[F64, float]:
    from scipy.optimize import minimize

    def objective(x: F64) -> tuple[float, F64]:
        log_sd = start.copy()
        log_sd[free] = x[:-1]
        value, by_sd, by_degrees = minus_log_likelihood(log_sd, x[-1], found)
        away = (x[:-1] - start[free]) / WIDTH
        return value + 0.5 * float(away @ away), np.append(by_sd[free] + away / WIDTH, by_degrees)

    bounds = [(None, None)] * int(free.sum()) + [(np.log(2.0), np.log(100.0))]
    x0 = np.append(start[free], np.log(priors.DEGREES))
    result = minimize(objective, x0, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": ITERATIONS})
    log_sd = start.copy()
    log_sd[free] = result.x[:-1]
    return log_sd, float(np.exp(result.x[-1]))


def optimism(problems: Sequence[Problem]) -> float:
    """How much slower than predicted the first of the predicted order is, beyond its fellows; mean over problems."""
    found = []
    for problem in problems:
        first = int(np.argmin(problem.rows.step_s))
        others = np.delete(problem.log_ratio, first)
        found.append(problem.log_ratio[first] - float(np.mean(others)))
    return float(np.mean(found)) if found else 0.0


def _by_card(problems: Sequence[Problem]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for problem in problems:
        family = card_family(problem.runs[0].device)
        counts[family] = counts.get(family, 0) + 1
    return counts


# ------------------------------------------------------------------------------------------- what cases share


def evidence_of(problems: Sequence[Problem], noise_sd: float, shared: float = 1.0, first_case: int = 0) -> Evidence:
    """Measured problems as evidence; the first is case ``first_case``."""
    sizes = [len(problem.rows) for problem in problems]
    total = sum(sizes)
    return Evidence(
        rows=Rows.concatenate([problem.rows for problem in problems]),
        log_ratio=np.concatenate([problem.log_ratio for problem in problems]),
        noise_sd=np.full(total, noise_sd),
        shared=np.full(total, shared),
        case=np.repeat(np.arange(len(problems)) + first_case, sizes).astype(float),
    )


def _with_shares(model: ErrorModel, problems: Sequence[Problem]) -> ErrorModel:
    """The shares, of a small grid, under which each source's problems together are likeliest (offsets left free)."""
    blocks = [block for block in _blocks(problems) if len(block) > 1]
    if len(blocks) < 2:
        return model
    grid = [(factors, near) for factors in SHARES for near in SHARES]
    totals = np.sum([_share_likelihoods(model, block, grid) for block in blocks], axis=0)
    factors, near = grid[int(np.argmax(totals))]
    return replace(model, shared_factors=factors, shared_near=near)


def _blocks(problems: Sequence[Problem]) -> list[list[Problem]]:
    """The problems of each source, as many as stay within ``LARGEST_BLOCK`` rows, evenly picked."""
    by_source: dict[str, list[Problem]] = {}
    for problem in problems:
        by_source.setdefault(problem.source, []).append(problem)
    blocks = []
    for group in by_source.values():
        step = max(int(np.ceil(sum(len(p.rows) for p in group) / LARGEST_BLOCK)), 1)
        blocks.append(group[::step])
    return blocks


def _share_likelihoods(model: ErrorModel, block: Sequence[Problem], grid: Sequence[tuple[float, float]]) -> list[float]:
    """Log likelihood of a source's problems under a t, each with a wide offset of its own, for each (factors, near)."""
    evidence, found = evidence_of(block, model.noise_sd), []
    rows, same = evidence.rows, evidence.case[:, None] == evidence.case[None, :]
    factors, near = model.factors_kernel(rows, rows), model.near(rows, rows)
    own = same * OFFSET_SD**2 + np.diag(evidence.noise_sd**2)
    n, nu = len(evidence), model.degrees
    for of_factors, of_near in grid:
        shared = np.where(same, 1.0, of_factors) * factors + np.where(same, 1.0, of_near) * near + own
        distance = float(evidence.log_ratio @ np.linalg.solve(shared, evidence.log_ratio))
        found.append(float(-0.5 * np.linalg.slogdet(shared)[1] - 0.5 * (nu + n) * np.log1p(distance / nu)))
    return found


def with_common(model: ErrorModel, log_ratios_by_source: Mapping[str, Sequence[float]]) -> ErrorModel:
    """The common factor of machine and stack, from the sources' means of log(measured / predicted): most sources are known
    to a few percent, some are far off. Likeliest mixture of two normals of mean 0, on a grid;
    how far off the strange are stays a prior: too few sources are."""
    means = np.array([np.mean(values) for values in log_ratios_by_source.values() if len(values) >= LEAST_RUNS])
    if len(means) < priors.ENOUGH_PROBLEMS:
        return model
    grid = [(known, priors.STRANGE_SD, share) for known in COMMON_GRID for share in SHARE_GRID]

    def likelihood(at: tuple[float, float, float]) -> float:
        known, strange, share = at
        densities = [np.exp(-0.5 * (means / sd) ** 2) / sd for sd in (known, strange)]
        return float(np.sum(np.log((1 - share) * densities[0] + share * densities[1])))

    known, strange, share = max(grid, key=likelihood)
    return replace(model, common_sd=known, strange_sd=strange, strange_share=share)


LEAST_RUNS = 3  # of a source whose mean counts
COMMON_GRID, SHARE_GRID = (0.02, 0.03, 0.04, 0.05, 0.07, 0.1), (0.05, 0.1, 0.2, 0.3, 0.4)


def log_ratios(judged: Sequence[Judged]) -> dict[str, list[float]]:
    """log(measured / predicted) of complete runs, by source."""
    found: dict[str, list[float]] = {}
    for one in judged:
        run = one.case.run
        if run.complete and run.step_time_s is not None:
            found.setdefault(run.group, []).append(float(np.log(run.step_time_s / one.prediction.step_s)))
    return found
