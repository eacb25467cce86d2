"""A study at work: ask, decode, price, tell, in batches; a strategy that the study holds already is answered from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autodeploy.errors import InputError
from autodeploy.search.candidates import Candidates
from autodeploy.search.refined import Refined
from autodeploy.search.request import Progress, SearchRequest
from autodeploy.strategy.convert import batch_to_strategy
from autodeploy.study import problem as problems
from autodeploy.study.landscape import Landscape, Params
from autodeploy.study.leases import ATTRIBUTE as LEASE
from autodeploy.study.leases import UNPRICEABLE, Worker, again, reclaim, renewed, sign
from autodeploy.study.storage import default_storage, open_storage, retried, told, without_password
from cost_models.strategies import StrategyBatch

if TYPE_CHECKING:
    import optuna

BATCH = 32  # trials asked for, priced and told at once
SHARED_BATCH = 8  # in a storage that others may join: what a kill can cost, and how finely work is spread
GIB = 2**30
MEMORY = "memory beyond the cap"  # the constraint: share of the cap by which a strategy exceeds it
Price = Callable[[StrategyBatch], Candidates]


@dataclass(slots=True)
class _Held:
    """What the study knows of strategies that are priced: (step, score, memory) by name."""

    known: dict[str, dict[str, float]]

    @staticmethod
    def of(study: optuna.Study) -> _Held:
        import optuna

        complete = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        return _Held({t.user_attrs["strategy"]: t.user_attrs["priced"] for t in complete if "priced" in t.user_attrs})


def refine(
    request: SearchRequest, landscape: Landscape, price: Price, *, deadline: float | None = None,
    progress: Progress | None = None, enough: Callable[[float], bool] | None = None,
) -> Refined:  # fmt: skip
    """Runs ``request.study_trials`` trials of the study; returns every strategy that it holds.

    ``enough``: whether no strategy of the landscape that is still unseen can score less than this.
    """
    began = time.monotonic()
    try:
        study = open_study(request)
        return _Loop(request, study, landscape, price, progress).run(began, deadline, enough)
    except InputError:
        raise
    except Exception as error:
        if request.storage is None and request.study is None:
            raise
        if not _of_the_storage(error):
            raise
        where = without_password(request.storage or str(request.study))
        raise InputError(
            "--storage",
            where,
            "a storage that stays",
            f"it failed midway ({told(error)}); run the command again to go on",
        ) from error


def _of_the_storage(error: Exception) -> bool:
    """Whether an exception comes from the storage or its driver, not from us."""
    names = {cls.__module__.split(".")[0] for cls in type(error).__mro__} | {
        type(error.__cause__).__module__.split(".")[0]
    }
    return (
        bool(names & {"sqlalchemy", "sqlite3", "psycopg", "pymysql", "grpc"})
        or "optuna.exceptions" in str(type(error))
        or isinstance(error, OSError)
    )


class _Loop:
    """One worker of a study."""

    def __init__(
        self, request: SearchRequest, study: optuna.Study, landscape: Landscape, price: Price, progress: Progress | None
    ) -> None:
        import optuna

        self.request, self.study, self.landscape, self.price, self.progress = request, study, landscape, price, progress
        self.shared = request.storage is not None or request.study is not None
        self.worker = Worker.here()
        self.held = _Held.of(study)
        self.distributions: dict[str, Any] = {
            name: optuna.distributions.CategoricalDistribution(values) for name, values in landscape.choices.items()
        }

    def run(self, began: float, deadline: float | None, enough: Callable[[float], bool] | None) -> Refined:
        self._enqueue()
        done, best = 0, self._best_held()
        timed_out = interrupted = settled = False
        size = SHARED_BATCH if self.shared else BATCH
        while done < self.request.study_trials and not (timed_out or interrupted or settled):
            try:
                if self.shared:
                    reclaim(self.study, self.worker)
                trials = self._ask(min(size, self.request.study_trials - done))
                best = min(best, self._work(trials))
            except KeyboardInterrupt:
                self._give_back()
                interrupted = True
                break
            done += len(trials)
            if self.progress:
                self.progress("refining", done, self.request.study_trials)
            timed_out = deadline is not None and time.monotonic() > deadline and done < self.request.study_trials
            settled = enough is not None and done >= len(self.landscape.start) and enough(best)
        return Refined(self._everything(), done, time.monotonic() - began, timed_out, interrupted, settled)

    def _enqueue(self) -> None:
        """The starting points, each once per study however many workers begin it."""
        if self.study.user_attrs.get("enqueued") or not self.landscape.start:
            return
        self.study.set_user_attr("enqueued", True)
        for params in list(self.landscape.start):
            self.study.enqueue_trial(dict(params), skip_if_exists=True)

    def _ask(self, count: int) -> list[optuna.Trial]:
        trials = []
        for _ in range(count):
            trial = retried(lambda: self.study.ask(self.distributions))
            if self.shared:
                sign(self.study, [trial], self.worker)
            trials.append(trial)
        return trials

    def _work(self, trials: Sequence[optuna.Trial]) -> float:
        if not self.shared:
            return self._price_and_tell(trials)
        with renewed(self.study, trials, self.worker):
            return self._price_and_tell(trials)

    def _price_and_tell(self, trials: Sequence[optuna.Trial]) -> float:
        """Prices what is new; returns the best feasible score."""
        batch = self.landscape.decode([trial.params for trial in trials])
        names = names_of(batch)
        new = [i for i, name in enumerate(names) if name not in self.held.known and name not in names[:i]]
        if new:
            priced = self.price(batch.take(np.array(new)))
            for j, i in enumerate(new):
                self.held.known[names[i]] = _priced(priced, j, self.request.hardware.usable_bytes)
        best = np.inf
        for trial, name in zip(trials, names, strict=True):
            found = self.held.known[name]
            self._tell(trial, name, found)
            if found["excess"] <= 0:
                best = min(best, found["score"])
        return best

    def _tell(self, trial: optuna.Trial, name: str, found: Mapping[str, float]) -> None:
        import optuna

        if not np.isfinite(found["score"]):
            trial.set_user_attr(UNPRICEABLE, True)
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)
            return
        try:
            trial.set_user_attr("strategy", name)
            trial.set_user_attr("priced", dict(found))
            trial.set_constraint(MEMORY, max(found["excess"], 0.0))
        except optuna.exceptions.UpdateFinishedTrialError:
            return  # another worker took this one for dead and has enqueued it again
        two = problems.two_objectives(self.request)
        values = [found["score"], found["memory_gib"]] if two else found["score"]
        self.study.tell(trial, values, skip_if_finished=True)

    def _best_held(self) -> float:
        return min((found["score"] for found in self.held.known.values() if found["excess"] <= 0), default=np.inf)

    def _give_back(self) -> None:
        """Ctrl-C: what was asked for and not told is for others, or for the next run."""
        import optuna

        if not self.shared:
            return
        for trial in self.study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
            lease = trial.user_attrs.get(LEASE) or {}
            if (lease.get("host"), lease.get("pid")) == (self.worker.host, self.worker.pid):
                self.study.tell(trial.number, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)
                again(self.study, trial)

    def _everything(self) -> Candidates | None:
        """All complete trials of the study, each strategy once, priced as this run prices."""
        import optuna

        complete = self.study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        by_name = {trial.user_attrs.get("strategy", trial.number): trial.params for trial in complete}
        if not by_name:
            return None
        batch = self.landscape.decode(list(by_name.values()))
        known = [self.held.known.get(name) for name in names_of(batch)]
        if any(found is None for found in known):  # told by another worker meanwhile
            self.held = _Held.of(self.study)
            known = [self.held.known.get(name) for name in names_of(batch)]
        rows = np.array([i for i, found in enumerate(known) if found is not None], dtype=np.intp)
        figures = [found for found in known if found is not None]
        return Candidates(
            batch.take(rows),
            np.array([f["step_time_s"] for f in figures]),
            np.array([f["memory_gib"] * GIB for f in figures]),
            np.array([f["excess"] <= 0 for f in figures]),
            np.array([f["score"] for f in figures]),
        )


def _priced(candidates: Candidates, i: int, cap_bytes: float) -> dict[str, float]:
    memory = float(candidates.reserved_bytes[i])
    excess = 0.0 if candidates.feasible[i] else max(memory / cap_bytes - 1.0, 1e-9)
    return {
        "step_time_s": float(candidates.step_s[i]),
        "memory_gib": memory / GIB,
        "score": float(candidates.score[i]),
        "excess": excess,
    }


def names_of(batch: StrategyBatch) -> list[str]:
    """One name per strategy, cards included: what a study knows it by."""
    return [f"{int(batch.devices[i])} x {batch_to_strategy(batch, i)}" for i in range(len(batch))]


def open_study(request: SearchRequest) -> optuna.Study:
    """The study of this problem, begun or gone on with. InputError where it is of another problem."""
    import optuna

    problem = problems.problem_of(request)
    url = request.storage or (default_storage(request.study) if request.study else None)
    name = request.study or (f"autodeploy-{problem.fingerprint}" if url else None)
    directions: list[Any] = ["minimize"] * (2 if problems.two_objectives(request) else 1)
    storage = open_storage(url)
    sampler = _sampler(request)

    def begin() -> optuna.Study:
        return optuna.create_study(
            storage=storage, study_name=name, sampler=sampler, directions=directions, load_if_exists=True
        )

    try:
        study = retried(begin)
    except Exception as error:
        raise InputError("--storage", without_password(url or ""), "a storage that answers", told(error)) from error
    _sign(study, problem, name or "")
    return study


def _sign(study: optuna.Study, problem: problems.Problem, name: str) -> None:
    """Writes the problem into a new study; refuses one of another problem, or one that is not ours."""
    stored = study.user_attrs.get(problems.ATTRIBUTE)
    if stored is None and study.get_trials(deepcopy=False):
        stored = study.user_attrs.get(problems.ATTRIBUTE)  # another first start may have signed and asked meanwhile
        if stored is None:
            raise InputError("--study", name, "a study of autodeploy's with its problem in it", "give another name")
    if stored is None:
        study.set_user_attr(problems.ATTRIBUTE, dict(problem.parts))
        study.set_metric_names(["score", "memory GiB"] if len(study.directions) == 2 else ["score"])
        return
    problem.require_same(stored, name)


def _sampler(request: SearchRequest) -> optuna.samplers.BaseSampler:
    import optuna

    if request.method == "nsga2":
        return optuna.samplers.NSGAIISampler(population_size=BATCH, seed=request.seed)
    if request.method == "random":
        return optuna.samplers.RandomSampler(seed=request.seed)
    return optuna.samplers.TPESampler(seed=request.seed, n_startup_trials=BATCH, constant_liar=True)


__all__ = ["Landscape", "Params", "Refined", "names_of", "open_study", "refine"]
