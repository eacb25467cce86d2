"""The report as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autodeploy.accuracy.compare import Report, RunResult, group_figures, total_figures
from autodeploy.accuracy.residuals import Residual, describe
from autodeploy.accuracy.targets import TargetStatus, target_status

if TYPE_CHECKING:
    from rich.table import Table


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def percent(value: float | None, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+.1%}" if signed else f"{value:.2%}"


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def report_tables(report: Report) -> list[Table]:
    """Groups (complete rows, then the rest) and targets."""
    groups = group_figures(report)
    tables = [
        _group_table(title, {name: parts[part] for name, parts in groups.items() if parts[part]["runs"]})
        for title, part in (("Complete rows without a suspect mark", "complete"), ("All other rows", "partial"))
    ]
    statuses = target_status(report)
    if statuses:
        tables.append(target_table(statuses))
    return tables


GROUP_COLUMNS = (
    "group",
    "runs",
    "timed",
    "MAPE",
    "median",
    "p90",
    "bias",
    "fitted",
    "held out",
    "typed",
    "memory",
    "m. typed",
    "tau",
)
TARGET_COLUMNS = ("target", "figure", "rows", "value", "reach", "")


def group_cells(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table by group."""
    tau = figures["rank_tau"] if figures["rank_tau"] is not None else figures["rate_tau"]
    counts = (name, str(figures["runs"]), str(figures["timed"]))
    errors = tuple(percent(figures[key]) for key in ("time_mape", "time_median_ape", "time_p90_ape"))
    parts = tuple(percent(figures[key]["time_mape"]) for key in ("fitted_families", "held_out_families"))
    bias = percent(figures["time_mean_error"], signed=True)
    typed, memory = percent(figures["as_typed_time_mape"]), percent(figures["memory_mape"])
    return (*counts, *errors, bias, *parts, typed, memory, percent(figures["as_typed_memory_mape"]), _score(tau))


def target_cells(status: TargetStatus) -> tuple[str, ...]:
    """One line of the table of targets."""
    target = status.target
    value, limit = percent(status.value), f"{target.limit:.1%}"
    if "tau" in target.metric:
        value, limit = _score(status.value), f"{target.limit:g}"
    reach = f"{'>=' if target.at_least else '<='} {limit}"
    return (target.name, target.metric, str(status.rows), value, reach, "met" if status.met else "missed")


def _group_table(title: str, groups: dict[str, dict[str, Any]]) -> Table:
    return _table(title, GROUP_COLUMNS, [group_cells(name, figures) for name, figures in groups.items()])


def target_table(statuses: Sequence[TargetStatus]) -> Table:
    title = f"Targets: {sum(status.met for status in statuses)} of {len(statuses)} met"
    return _table(title, TARGET_COLUMNS, [target_cells(status) for status in statuses], left=2)


def summary(report: Report) -> str:
    total = total_figures(report)
    parts = [f"{len(report.results)} runs, {total['skipped']} not predicted"]
    parts.append(
        f"{total['timed']} gated step times: MAPE {percent(total['time_mape'])}, "
        f"as typed {percent(total['as_typed_time_mape'])}"
    )
    if total["fit_balanced_accuracy"] is not None:
        parts.append(f"fits or dies: balanced accuracy {percent(total['fit_balanced_accuracy'])}")
    return "; ".join(parts)


def worst_table(results: Sequence[RunResult], memory: bool = False) -> Table:
    columns = ("run", "strategy", "device", "measured", "predicted", "ratio", "largest causes")
    rows = []
    for result in results:
        run = result.run
        measured, predicted = (
            (run.peak_memory_gib, result.predicted_memory_gib)
            if memory
            else (run.step_time_s, result.predicted_step_time_s)
        )
        if measured is None or predicted is None:
            continue
        causes = sorted(result.time_s.items(), key=lambda item: -item[1])[:4]
        shown = " ".join(f"{name} {value:.3g}" for name, value in causes)
        rows.append(
            (
                run.id,
                describe(run),
                f"{run.num_devices} {run.device}",
                f"{measured:.4g}",
                f"{predicted:.4g}",
                f"{predicted / measured:.3f}",
                "" if memory else shown,
            )
        )
    return _table("Worst rows", columns, rows, left=3)


def residual_table(found: Sequence[Residual], names: Sequence[str], memory: bool = False) -> Table:
    rows = [
        (
            *(str(value) for value in each.key),
            str(len(each.ratios)),
            f"{each.median:.3f}",
            f"{each.spread[0]:.3f}",
            f"{each.spread[1]:.3f}",
            percent(each.mape),
        )
        for each in found
    ]
    title = "Predicted / measured memory" if memory else "Predicted / measured step time"
    return _table(title, (*names, "rows", "median", "min", "max", "MAPE"), rows, left=len(names))


def skipped_table(results: Sequence[RunResult]) -> Table:
    rows = [(r.run.id, r.run.report_group, r.skipped or "") for r in results if r.skipped]
    return _table("Not predicted", ("run", "group", "why"), rows, left=3)
