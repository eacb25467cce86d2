"""What a search is asked: three inputs (model, hardware, workload), the cards, and how to look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from autodeploy.errors import InputError
from autodeploy.strategy.axes import Axes
from cost_models.case import Case
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.strategies import F64, Ladder, StrategyBatch

if TYPE_CHECKING:
    from cost_models.step import Bounds, StepCost, StepPrice

METHODS = ("auto", "exhaustive", "tpe", "nsga2", "random")
RANK_BY = ("expected", "predicted")
TRIALS = 200
OBJECTIVES = ("time", "tokens", "memory", "cost", "pareto")

Progress = Callable[[str, int, int | None], None]  # (what, done, total)


class Evaluate(Protocol):
    """The pure function that prices strategies: ``cost_models.step.evaluate`` or a stand-in."""

    def __call__(self, case: Case, batch: StrategyBatch, *, per_rank: bool = False) -> StepCost: ...


class Price(Protocol):
    """``cost_models.step.price``: the same figures without causes."""

    def __call__(self, case: Case, batch: StrategyBatch) -> StepPrice: ...


class Bound(Protocol):
    """``cost_models.step.bounds``: above ``most_bytes`` nobody asks the time."""

    def __call__(self, case: Case, bases: StrategyBatch, ladder: Ladder, most_bytes: float = ...) -> Bounds: ...


# The event simulator, where there is one: seconds of one step [N], or None when it cannot replay this batch.
SimulateBatch = Callable[[Case, StrategyBatch], F64 | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """One question to the twin. The memory cap is ``hardware.usable_bytes``."""

    case: Case
    devices: tuple[int, ...]
    backend: str
    axes: Axes = field(default_factory=Axes)
    method: str = "auto"
    objective: str = "time"
    top: int = 20
    all_variants: bool = False
    audit: bool = False  # price also what pruning skips
    keep_oversized: bool = False  # price also what cannot fit whatever the options, to name the nearest misses
    trials: int | None = (
        None  # of a study; None: TRIALS, and in ``auto`` none at all: its moves are swept in closed form
    )
    timeout_s: float | None = None
    storage: str | None = None
    study: str | None = None
    workers: int | None = None  # processes; None: as many as the space is worth
    seed: int = 0
    rank_by: str = "expected"  # over the error model; "predicted": by the twin's figures alone
    safe_usage: float = 1.0  # share of the usable memory up to which a strategy is likely enough to fit

    @property
    def model(self) -> ModelSpec:
        return self.case.model

    @property
    def hardware(self) -> HardwareProfile:
        return self.case.hardware

    @property
    def workload(self) -> Workload:
        return self.case.workload

    @property
    def safe_bytes(self) -> float:
        """The predicted peak up to which a strategy is likely enough to fit."""
        return self.safe_usage * self.hardware.usable_bytes

    @property
    def runs_study(self) -> bool:
        """Whether Optuna runs: ``auto`` only where a study is asked for."""
        asked = self.trials is not None or self.storage is not None or self.study is not None
        return self.trials != 0 and self.method != "exhaustive" and (asked or self.method != "auto")

    @property
    def study_trials(self) -> int:
        return TRIALS if self.trials is None else self.trials

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError("--method", self.method, f"one of {', '.join(METHODS)}")
        if self.rank_by not in RANK_BY:
            raise InputError("--rank-by", self.rank_by, f"one of {', '.join(RANK_BY)}")
        if self.objective not in OBJECTIVES:
            raise InputError("--objective", self.objective, f"one of {', '.join(OBJECTIVES)}")
        for name, low in (("top", 1), ("trials", 0), ("workers", 1)):
            value = getattr(self, name)
            if value is not None and value < low:
                raise InputError(f"--{name}", value, f"a whole number >= {low}")
        if self.method == "exhaustive" and (self.storage is not None or self.study is not None):
            option = "--study" if self.storage is None else "--storage"
            raise InputError(
                option, self.study, "given with a method that runs a study", "--method auto, tpe, nsga2 or random"
            )
        if not self.devices or min(self.devices) < 1:
            raise InputError("--devices", self.devices, "a whole number of cards >= 1")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise InputError("--timeout", self.timeout_s, "seconds > 0")
