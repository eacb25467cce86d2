"""What the twin must reach, as data: one line per row of the table in the accuracy issue.

A limit is a fraction. Errors must not exceed it, shares and rank correlations must not fall below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autodeploy.accuracy.compare import Report, RunResult, figures, fit_balanced_accuracy, rate_tau, time_tau

CI_PREFIX = "ci-"  # the cut-down CI models of the Ascend source are reported apart
AT_LEAST = ("fit_balanced_accuracy", "rank_tau", "rate_tau")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """``rows``: measured rows behind it, for checking; ``peer``: what the tool of the row's publisher reaches."""

    name: str
    sources: tuple[str, ...]
    metric: str = "time_mape"
    limit: float
    rows: int
    precision: str = ""  # "": both classes
    part: str = "complete"  # complete | partial | all
    ci: bool | None = None  # True: only ci- rows, False: none of them
    peer: str = ""

    def keeps(self, result: RunResult) -> bool:
        run = result.run
        return (
            run.group in self.sources
            and self.precision in ("", run.precision_class)
            and (self.part == "all" or run.gated == (self.part == "complete"))
            and (self.ci is None or run.id.startswith(CI_PREFIX) == self.ci)
        )

    @property
    def at_least(self) -> bool:
        return self.metric in AT_LEAST

    def value(self, results: Sequence[RunResult]) -> float | None:
        kept = [result for result in results if self.keeps(result)]
        if self.metric == "fit_balanced_accuracy":
            return fit_balanced_accuracy(kept)
        if self.metric == "rank_tau":
            return time_tau(kept)
        return rate_tau(kept) if self.metric == "rate_tau" else figures(kept)[self.metric]

    def counted(self, results: Iterable[RunResult]) -> int:
        """Rows behind the value: with the measurement that the metric needs."""
        kept = (result for result in results if self.keeps(result))
        if self.metric == "fit_balanced_accuracy":
            return sum(r.oom_measured is not None and r.oom_predicted is not None for r in kept)
        if self.metric == "rate_tau":
            return sum(r.measured_tflops_per_device is not None for r in kept)
        memory = self.metric == "memory_mape"
        return sum((r.memory_error_frac if memory else r.time_error_frac) is not None for r in kept)

    def met(self, value: float | None) -> bool:
        if value is None:
            return False
        return value >= self.limit if self.at_least else value <= self.limit


def _time(source: str, precision: str, limit: float, rows: int, peer: str = "", **more: object) -> Target:
    name = f"{source}/{precision}" if precision else source
    return Target(name=name, sources=(source,), precision=precision, limit=limit, rows=rows, peer=peer, **more)  # type: ignore[arg-type]


TARGETS: tuple[Target, ...] = (
    _time("simumax_b200", "bf16", 0.05, 37, "SimuMax 5.56%"),
    Target(
        name="simumax_b200/bf16 memory",
        sources=("simumax_b200",),
        precision="bf16",
        metric="memory_mape",
        limit=0.015,
        rows=37,
        peer="SimuMax 0.46%",
    ),
    _time("korthikanti", "bf16", 0.035, 9, "Calculon 3.65%"),
    _time("vtrain_single", "bf16", 0.08, 1276, "vTrain 8.37%"),
    _time("vtrain_multi", "bf16", 0.10, 72, "vTrain 14.73%"),
    _time("narayanan21", "bf16", 0.06, 16),
    _time("dgxc", "bf16", 0.05, 108),
    _time("dgxc", "fp8", 0.08, 81),
    _time("hagemann", "", 0.08, 314),
    _time("zero_bubble", "", 0.08, 44),
    _time("bloom_bench", "", 0.08, 71),
    _time("megatron_bridge", "bf16", 0.08, 16),
    _time("megatron_bridge", "fp8", 0.12, 110),
    _time("nemo", "fp8", 0.12, 34),
    _time("nemo_launcher", "bf16", 0.08, 5),
    _time("nemo_launcher", "fp8", 0.12, 17),
    _time("moe_modelzoo", "bf16", 0.08, 9),
    Target(name="ascend without ci- rows", sources=("ascend",), ci=False, limit=0.10, rows=39, peer="Huawei says 90%"),
    Target(
        name="ascend ci- rows memory",
        sources=("ascend",),
        ci=True,
        part="all",
        metric="memory_mape",
        limit=0.05,
        rows=30,
    ),
    _time("torchtitan", "", 0.08, 34),
    _time("llm_foundry", "", 0.08, 112),
    Target(
        name="megatron_h100_2024 (stated defaults)", sources=("megatron_h100_2024",), part="partial", limit=0.10, rows=9
    ),
    Target(
        name="fits or dies",
        sources=("hagemann", "bloom_bench"),
        part="all",
        metric="fit_balanced_accuracy",
        limit=0.95,
        rows=846,
    ),
    Target(
        name="ranking of hagemann, vtrain, dgxc",
        sources=("hagemann", "vtrain_single", "vtrain_multi", "dgxc"),
        metric="rank_tau",
        limit=0.85,
        rows=1851,
    ),
    Target(
        name="ranking of moe_folding by TFLOP/s",
        sources=("moe_folding",),
        part="all",
        metric="rate_tau",
        limit=0.85,
        rows=72,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStatus:
    target: Target
    value: float | None
    rows: int
    met: bool


def target_status(report: Report) -> list[TargetStatus]:
    """Every target that has rows in the report."""
    statuses = []
    for target in TARGETS:
        if any(target.keeps(result) for result in report.results):
            value = target.value(report.results)
            statuses.append(
                TargetStatus(target=target, value=value, rows=target.counted(report.results), met=target.met(value))
            )
    return statuses
