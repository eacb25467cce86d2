"""Refining: an Optuna study over the same evaluation, in batches. The one module that imports Optuna.

``auto`` moves around what the screen found (moves.py); ``tpe``, ``nsga2`` and ``random`` look for themselves in the
whole space (catalogue.py). Either way a study is a set of integer parameters and a function that turns them into strategies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autodeploy.errors import InputError
from autodeploy.search.candidates import Candidates
from autodeploy.search.request import Progress, SearchRequest
from cost_models.strategies import StrategyBatch

if TYPE_CHECKING:
    import optuna

BATCH = 32  # trials asked for, priced and told at once
Params = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landscape:
    """What a study explores: integer parameters 0..high, decoded into one strategy per trial."""

    highs: Mapping[str, int]
    decode: Callable[[Sequence[Params]], StrategyBatch]
    start: Sequence[Params] = ()  # tried first


@dataclass(frozen=True, slots=True, eq=False)
class Refined:
    candidates: Candidates | None
    trials: int
    seconds: float
    timed_out: bool


def refine(
    request: SearchRequest,
    landscape: Landscape,
    price: Callable[[StrategyBatch], Candidates],
    *,
    deadline: float | None = None,
    progress: Progress | None = None,
) -> Refined:
    """Runs ``request.trials`` trials; returns every strategy tried."""
    import optuna

    began = time.monotonic()
    study = _study(request)
    distributions: dict[str, Any] = {
        name: optuna.distributions.IntDistribution(0, high) for name, high in landscape.highs.items()
    }
    for params in list(landscape.start)[: request.trials]:
        study.enqueue_trial(dict(params))
    tried: list[Candidates] = []
    done, timed_out = 0, False
    while done < request.trials:
        trials = [study.ask(distributions) for _ in range(min(BATCH, request.trials - done))]
        candidates = price(landscape.decode([trial.params for trial in trials]))
        _tell(request, study, trials, candidates)
        tried.append(candidates)
        done += len(trials)
        if progress:
            progress("refining", done, request.trials)
        if deadline is not None and time.monotonic() > deadline:
            timed_out = done < request.trials
            break
    found = Candidates.concatenate(tried) if tried else None
    return Refined(found, done, time.monotonic() - began, timed_out)


def _two_objectives(request: SearchRequest) -> bool:
    return request.objective == "pareto" or request.method == "nsga2"


def _tell(request: SearchRequest, study: optuna.Study, trials: Sequence[optuna.Trial], candidates: Candidates) -> None:
    """What does not fit is told as an over-long step, the longer the more it lacks, so that the study turns away from it."""
    cap = request.hardware.usable_bytes
    excess = np.maximum(candidates.reserved_bytes / cap - 1.0, 0.0)
    penalty = np.where(candidates.feasible, 1.0, 2.0 + excess)
    for i, trial in enumerate(trials):
        score = float(candidates.score[i] * penalty[i])
        if not np.isfinite(score):
            study.tell(trial, state=_failed())
            continue
        memory = float(candidates.reserved_bytes[i] * penalty[i])
        study.tell(trial, [score, memory] if _two_objectives(request) else score)


def _failed() -> optuna.trial.TrialState:
    import optuna

    return optuna.trial.TrialState.FAIL


def _study(request: SearchRequest) -> optuna.Study:
    import warnings

    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    directions = ["minimize", "minimize"] if _two_objectives(request) else ["minimize"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = _sampler(request)
        try:
            return optuna.create_study(
                storage=request.storage,
                study_name=request.study,
                sampler=sampler,
                directions=directions,  # type: ignore[arg-type]
                load_if_exists=True,
            )
        except Exception as error:  # SQLAlchemy's and the driver's own types; none of them is ours to import
            raise InputError(
                "--storage", request.storage, "a database URL that Optuna opens", _first_line(error)
            ) from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"


def _sampler(request: SearchRequest) -> optuna.samplers.BaseSampler:
    import optuna

    if request.method == "nsga2":
        return optuna.samplers.NSGAIISampler(population_size=BATCH, seed=request.seed)
    if request.method == "random":
        return optuna.samplers.RandomSampler(seed=request.seed)
    return optuna.samplers.TPESampler(seed=request.seed, n_startup_trials=BATCH, constant_liar=True)
