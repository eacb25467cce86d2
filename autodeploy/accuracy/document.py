"""The report as JSON (schema autodeploy.accuracy/1) and as CSV rows."""

from __future__ import annotations

from typing import Any

from autodeploy.accuracy.compare import Report, RunResult, family_figures, group_figures, total_figures
from autodeploy.accuracy.targets import TargetStatus, target_status
from autodeploy.report.error_band import band_of

SCHEMA = "autodeploy.accuracy/1"


def report_document(
    report: Report, failed: list[str] | None = None, baseline: str | None = None, unjudged: list[str] | None = None
) -> dict[str, Any]:
    """Keys change only by addition. ``failed`` and ``unjudged``: what the gate over ``baseline`` (a file's name) says."""
    return {
        "schema": SCHEMA,
        "runs": [run_row(result) for result in report.results],
        "groups": group_figures(report),
        "families": family_figures(report),
        "targets": [target_row(status) for status in target_status(report)],
        "total": total_figures(report),
        "gate": {"passed": not failed, "failed": failed or [], "unjudged": unjudged or [], "baseline": baseline},
    }


def run_row(result: RunResult) -> dict[str, Any]:
    run = result.run
    return {
        "id": run.id,
        "group": run.report_group,
        "family": run.family,
        "complete": run.complete,
        "suspect": run.suspect,
        "measured_step_time_s": run.step_time_s,
        "predicted_step_time_s": result.predicted_step_time_s,
        "time_error_frac": result.time_error_frac,
        "measured_memory_gib": run.peak_memory_gib,
        "predicted_memory_gib": result.predicted_memory_gib,
        "memory_error_frac": result.memory_error_frac,
        "oom_measured": result.oom_measured,
        "oom_predicted": result.oom_predicted,
        "fitted_on": result.fitted_on,
        "skipped": result.skipped,
        "command": result.typed.command if result.typed else None,
        "as_typed_step_time_s": result.typed.step_s if result.typed else None,
        "as_typed_time_error_frac": result.as_typed_time_error_frac,
        "as_typed_error_frac": band_of(result.typed.like, without=run.family).frac if result.typed else None,
        "as_typed_memory_gib": result.as_typed_memory_gib,
        "as_typed_memory_error_frac": result.as_typed_memory_error_frac,
        "as_typed_memory_error_band_frac": (
            band_of(result.typed.like, "memory", without=run.family).frac if result.typed else None
        ),
        "as_typed_oom": None if result.typed is None else not result.typed.fits,
        "as_typed_skipped": result.untyped,
        "time_s": result.time_s,
        "measured_tflops_per_device": result.measured_tflops_per_device,
        "predicted_tflops_per_device": result.predicted_tflops_per_device,
        "missing": run.missing,
        "assumed": list(result.assumed),
    }


def target_row(status: TargetStatus) -> dict[str, Any]:
    target = status.target
    return {
        "name": target.name,
        "metric": target.metric,
        "limit": target.limit,
        "at_least": target.at_least,
        "value": status.value,
        "rows": status.rows,
        "met": status.met,
        "peer": target.peer,
    }
