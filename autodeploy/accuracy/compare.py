"""Predicted against measured: one result per run, figures per group and part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autodeploy.accuracy import metrics
from autodeploy.accuracy.cases import RunCase, build_cases
from autodeploy.accuracy.held_out import held_out_families
from autodeploy.accuracy.loader import Run, RunSet
from autodeploy.accuracy.predict import Evaluate, Prediction, predict
from autodeploy.accuracy.typed import TypedPrice, Typist, price_typed

GIB = 2.0**30
RESERVED_KINDS = ("reserved", "nvidia-smi")  # what the other readings leave out: context, buffers, fragmentation


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One run, measured and predicted. None: not measured, or not predicted (``skipped`` says why)."""

    run: Run
    predicted_step_time_s: float | None = None
    predicted_memory_gib: float | None = None
    oom_predicted: bool | None = None
    measured_tflops_per_device: float | None = None
    predicted_tflops_per_device: float | None = None
    time_s: dict[str, float] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    fitted_on: bool = True  # False: its family is held out of every fit
    skipped: str | None = None
    typed: TypedPrice | None = None  # what the command prices that a user would type for the run
    untyped: str | None = None  # why there is no such command

    @property
    def as_typed_time_error_frac(self) -> float | None:
        if self.run.step_time_s is None or self.typed is None:
            return None
        return metrics.error_frac(self.typed.step_s, self.run.step_time_s)

    @property
    def as_typed_memory_gib(self) -> float | None:
        """Of the kind that was measured: allocated, or reserved as the command prints it."""
        if self.typed is None:
            return None
        return (self.typed.reserved_bytes if is_reserved(self.run) else self.typed.allocated_bytes) / GIB

    @property
    def as_typed_memory_error_frac(self) -> float | None:
        if self.run.peak_memory_gib is None or self.as_typed_memory_gib is None:
            return None
        return metrics.error_frac(self.as_typed_memory_gib, self.run.peak_memory_gib)

    @property
    def time_error_frac(self) -> float | None:
        if self.run.step_time_s is None or self.predicted_step_time_s is None:
            return None
        return metrics.error_frac(self.predicted_step_time_s, self.run.step_time_s)

    @property
    def memory_error_frac(self) -> float | None:
        if self.run.peak_memory_gib is None or self.predicted_memory_gib is None:
            return None
        return metrics.error_frac(self.predicted_memory_gib, self.run.peak_memory_gib)

    @property
    def oom_measured(self) -> bool | None:
        """A run with a step time has fitted; an empty verdict without one says nothing."""
        return True if self.run.oom else (False if self.run.step_time_s is not None else None)


@dataclass(frozen=True, slots=True)
class Report:
    """All results of one comparison, in the order of the runs."""

    results: tuple[RunResult, ...]

    def select(self, keep: Callable[[RunResult], bool]) -> list[RunResult]:
        return [result for result in self.results if keep(result)]


def compare(run_set: RunSet, evaluate: Evaluate | None = None, runs: Iterable[Run] | None = None) -> Report:
    """Every run (or ``runs`` of the set) predicted twice: with its own configuration, and as a user would type it.

    ``evaluate``: a stand-in for the cost models; then nothing is replayed.
    """
    chosen = tuple(run_set.runs if runs is None else runs)
    cases = build_cases(run_set, chosen)
    predictions, failed = predict(cases.cases, evaluate)
    by_id = {case.run.id: case for case in cases.cases}
    reasons = {**cases.skipped, **failed}
    typed, untyped = _as_typed(run_set, [c for c in cases.cases if c.run.id in predictions], predictions, evaluate)
    held_out = held_out_families(run_set.runs)
    results = []
    for run in chosen:
        fitted_on = run.family not in held_out
        if run.id in predictions:
            result = _result(by_id[run.id], predictions[run.id], fitted_on)
            results.append(replace(result, typed=typed.get(run.id), untyped=untyped.get(run.id)))
        else:
            results.append(RunResult(run=run, fitted_on=fitted_on, skipped=reasons[run.id]))
    return Report(tuple(results))


def _as_typed(
    run_set: RunSet, cases: Sequence[RunCase], predictions: dict[str, Prediction], evaluate: Evaluate | None
) -> tuple[Mapping[str, TypedPrice], dict[str, str]]:
    """What the typed commands price, by run id, and why a run has none."""
    typed, reasons = Typist(run_set).type_all((case, predictions[case.run.id].point) for case in cases)
    if evaluate is not None:
        return price_typed(typed, evaluate, None), reasons
    from autodeploy.replay import simulated_step_s
    from cost_models.step import evaluate as cost_models_evaluate

    return price_typed(typed, cost_models_evaluate, simulated_step_s), reasons


def is_reserved(run: Run) -> bool:
    """Whether the run's memory was read as reserved bytes, or else as allocated ones."""
    return (run.memory_kind or "reserved").startswith(RESERVED_KINDS)


def _result(case: RunCase, prediction: Prediction, fitted_on: bool) -> RunResult:
    run = case.run
    peak = prediction.reserved_bytes if is_reserved(run) else prediction.allocated_bytes
    devices = run.num_devices or 1
    measured_tflops = run.tflops_per_device
    if measured_tflops is None and run.mfu is not None:
        measured_tflops = run.mfu * case.hardware.device.peak_flop_per_s["bf16"] / 1e12
    return RunResult(
        run=run,
        predicted_step_time_s=prediction.step_s,
        predicted_memory_gib=peak / GIB,
        oom_predicted=not prediction.fits,
        measured_tflops_per_device=measured_tflops,
        predicted_tflops_per_device=prediction.model_flop / prediction.step_s / devices / 1e12,
        time_s=prediction.time_s,
        assumed=case.assumed,
        fitted_on=fitted_on,
    )


# ------------------------------------------------------------------------------------------------------- figures


def figures(results: Sequence[RunResult]) -> dict[str, Any]:
    """The figures of one part of a group. Errors are fractions; None where nothing was measured."""
    times = [r.time_error_frac for r in results if r.time_error_frac is not None]
    memory = [r.memory_error_frac for r in results if r.memory_error_frac is not None]
    typed = [r.as_typed_time_error_frac for r in results if r.as_typed_time_error_frac is not None]
    typed_memory = [r.as_typed_memory_error_frac for r in results if r.as_typed_memory_error_frac is not None]
    return {
        "runs": len(results),
        "predicted": sum(r.skipped is None for r in results),
        "timed": len(times),
        "time_mape": metrics.mean_ape(times),
        "time_median_ape": metrics.median_ape(times),
        "time_p90_ape": metrics.p90_ape(times),
        "time_mean_error": metrics.mean_error(times),
        "memory_measured": len(memory),
        "memory_mape": metrics.mean_ape(memory),
        "memory_mean_error": metrics.mean_error(memory),
        "as_typed_timed": len(typed),
        "as_typed_time_mape": metrics.mean_ape(typed),
        "as_typed_time_median_ape": metrics.median_ape(typed),
        "as_typed_time_p90_ape": metrics.p90_ape(typed),
        "as_typed_memory_mape": metrics.mean_ape(typed_memory),
        "rank_tau": time_tau(results),
        "rate_tau": rate_tau(results),
    }


def split_figures(results: Sequence[RunResult]) -> dict[str, Any]:
    """Figures of all, and apart of the families that fits may use and of those held out of every fit."""
    whole = figures(results)
    for name, fitted in (("fitted_families", True), ("held_out_families", False)):
        part = figures([r for r in results if r.fitted_on is fitted])
        kept = ("runs", "time_mape", "memory_mape", "rank_tau", "as_typed_time_mape", "as_typed_memory_mape")
        whole[name] = {key: part[key] for key in kept}
    return whole


def _families(results: Sequence[RunResult]) -> list[list[RunResult]]:
    families: dict[str, list[RunResult]] = {}
    for result in results:
        families.setdefault(result.run.family, []).append(result)
    return list(families.values())


def time_tau(results: Sequence[RunResult]) -> float | None:
    """Ranking by step time in families of at least five timed rows."""
    timed = [r for r in results if r.time_error_frac is not None]
    return _tau(timed, lambda r: (r.run.step_time_s, r.predicted_step_time_s))


def rate_tau(results: Sequence[RunResult]) -> float | None:
    """Ranking by TFLOP/s per device, where no step time was published."""
    untimed = [r for r in results if r.run.step_time_s is None]
    rated = [r for r in untimed if r.measured_tflops_per_device and r.predicted_tflops_per_device]
    return _tau(rated, lambda r: (r.measured_tflops_per_device, r.predicted_tflops_per_device))


def _tau(results: Sequence[RunResult], values: Callable[[RunResult], tuple[Any, Any]]) -> float | None:
    pairs = [[values(result) for result in family] for family in _families(results)]
    return metrics.pooled_tau([([m for m, _ in family], [p for _, p in family]) for family in pairs])


def fit_balanced_accuracy(results: Sequence[RunResult]) -> float | None:
    """Fits or dies, over the sources that report both verdicts."""
    verdicts = [r for r in results if r.oom_measured is not None and r.oom_predicted is not None]
    deadly = {r.run.group for r in verdicts if r.oom_measured}
    judged = [r for r in verdicts if r.run.group in deadly]
    return metrics.balanced_accuracy([bool(r.oom_measured) for r in judged], [bool(r.oom_predicted) for r in judged])


def group_names(report: Report) -> list[str]:
    return sorted({result.run.report_group for result in report.results})


def group_figures(report: Report) -> dict[str, dict[str, Any]]:
    """Group -> {"complete": figures, "partial": figures}: complete rows without a suspect mark, and all others."""
    groups: dict[str, dict[str, list[RunResult]]] = {
        name: {"complete": [], "partial": []} for name in group_names(report)
    }
    for result in report.results:
        groups[result.run.report_group]["complete" if result.run.gated else "partial"].append(result)
    return {name: {part: split_figures(rows) for part, rows in parts.items()} for name, parts in groups.items()}


def family_figures(report: Report) -> dict[str, dict[str, Any]]:
    """Figures by family over gated rows: for diagnosis."""
    return {rows[0].run.family: figures(rows) for rows in _families([r for r in report.results if r.run.gated])}


def total_figures(report: Report) -> dict[str, Any]:
    gated = report.select(lambda r: r.run.gated)
    return {
        **split_figures(gated),
        "fit_balanced_accuracy": fit_balanced_accuracy(report.results),
        "skipped": sum(r.skipped is not None for r in report.results),
    }
