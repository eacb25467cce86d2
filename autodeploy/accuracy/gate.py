"""The regression gate: today's figures against a committed baseline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autodeploy.accuracy.compare import Report, group_figures
from autodeploy.accuracy.targets import TargetStatus, target_status
from autodeploy.errors import InputError
from autodeploy.files import parse_json, read_text, write_text

SCHEMA = "autodeploy.accuracy-baseline/1"
SLACK = 0.005  # half a point
ERRORS = ("time_mape", "memory_mape", "as_typed_time_mape", "as_typed_memory_mape")  # grow: worse
SCORES = ("rank_tau", "rate_tau")  # shrink: worse
KEPT = ("predicted", *ERRORS, "time_p90_ape", *SCORES)  # p90: what the search reports as step_time_error_frac


def baseline_of(report: Report) -> dict[str, Any]:
    """What a baseline file records: figures of the complete part of each group, and every target's value."""
    groups = {
        name: {key: _rounded(parts["complete"][key]) for key in KEPT}
        for name, parts in group_figures(report).items()
        if parts["complete"]["runs"]
    }
    targets = {s.target.name: {"value": _rounded(s.value), "met": s.met, "rows": s.rows} for s in target_status(report)}
    return {"schema": SCHEMA, "groups": groups, "targets": targets}


def _rounded(value: float | int | None) -> float | int | None:
    return round(value, 5) if isinstance(value, float) else value


def read_baseline(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise InputError("--baseline", str(file), "a baseline file", "write one with --write-baseline")
    try:
        baseline = parse_json(read_text(file, "a baseline"), str(file))
    except InputError as error:
        raise InputError("--baseline", str(file), "a JSON file that --write-baseline wrote", str(error.value)) from None
    if not isinstance(baseline, dict) or baseline.get("schema") != SCHEMA:
        raise InputError("--baseline", str(file), f"a file of schema {SCHEMA}", "write one with --write-baseline")
    return baseline


def write_baseline(file: Path, report: Report) -> list[str]:
    """Writes the baseline; returns what changed, a line each."""
    new = baseline_of(report)
    old = read_baseline(file) if file.is_file() else {"groups": {}, "targets": {}}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps(new, indent=1, sort_keys=True, allow_nan=False) + "\n", "--write-baseline")
    return difference(old, new)


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Before -> after, a line per figure that moved."""
    lines = []
    for name in sorted({*old["groups"], *new["groups"]}):
        before, after = old["groups"].get(name, {}), new["groups"].get(name, {})
        for key in KEPT:
            if before.get(key) != after.get(key):
                lines.append(f"{name} {key}: {_shown(key, before.get(key))} -> {_shown(key, after.get(key))}")
    for name in sorted({*old["targets"], *new["targets"]}):
        before, after = old["targets"].get(name, {}), new["targets"].get(name, {})
        if before.get("met") != after.get("met"):
            lines.append(f"target {name}: {_verdict(before)} -> {_verdict(after)}")
    return lines


def _shown(key: str, value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.2%}" if key in ERRORS else f"{value:g}"


def _verdict(target: Mapping[str, Any]) -> str:
    return "none" if not target else ("met" if target.get("met") else "missed")


def violations(report: Report, baseline: Mapping[str, Any]) -> list[str]:
    """Why the gate fails; empty: it passes. Only groups and targets with rows in the report are judged."""
    return [*_group_violations(baseline_of(report), baseline), *_target_violations(report, baseline)]


def _group_violations(now: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[str]:
    found = []
    for name, before in baseline["groups"].items():
        after = now["groups"].get(name)
        if after is None:
            continue
        if after["predicted"] < before["predicted"]:
            found.append(f"{name}: {before['predicted']} rows were predicted, now {after['predicted']}")
        for key in (*ERRORS, *SCORES):
            worse = _worse_by(key, before.get(key), after.get(key))
            if worse > SLACK:
                shown = f"{_shown(key, before.get(key))} -> {_shown(key, after.get(key))}"
                found.append(f"{name} {key}: {shown}, worse by {worse * 100:.2f} points (allowed: {SLACK * 100:g})")
    return found


def _worse_by(key: str, before: float | None, after: float | None) -> float:
    if before is None:
        return 0.0
    if after is None:
        return 1.0
    return after - before if key in ERRORS else before - after


def _target_violations(report: Report, baseline: Mapping[str, Any]) -> list[str]:
    """A target that the baseline had met must stay met, where all its rows were run."""
    found = []
    for status in target_status(report):
        target = status.target
        before = baseline["targets"].get(target.name, {})
        if before.get("met") and not status.met and not _partly_run(report, status, before):
            sign = ">=" if target.at_least else "<="
            value = "none" if status.value is None else f"{status.value:.4f}"
            found.append(f"target {target.name}: {target.metric} {value}, was met, must be {sign} {target.limit:g}")
    return found


def unjudged(report: Report, baseline: Mapping[str, Any]) -> list[str]:
    """Targets over several sources of which only some were run: no verdict, and why."""
    return [
        f"target {status.target.name}: not judged, it spans {', '.join(_not_run(report, status))} too"
        for status in target_status(report)
        if _partly_run(report, status, baseline["targets"].get(status.target.name, {}))
    ]


def _partly_run(report: Report, status: TargetStatus, before: Mapping[str, Any]) -> bool:
    """Whether a source of the target was left out of the run. A source that is there but lost rows is judged: its group
    says so."""
    return bool(_not_run(report, status)) and status.rows < before.get("rows", status.target.rows)


def _not_run(report: Report, status: TargetStatus) -> list[str]:
    there = {(result.run.group, result.run.precision_class) for result in report.results}
    wanted = status.target.precision
    return [s for s in status.target.sources if not any(g == s and wanted in ("", p) for g, p in there)]


def junit(judged: Sequence[str], failed: Sequence[str], skipped: Sequence[str]) -> str:
    """The verdict as JUnit XML: one case per judged group, one per failure, one per target without a verdict."""
    from xml.sax.saxutils import escape, quoteattr

    cases = [f'  <testcase classname="accuracy" name={quoteattr(name)}/>' for name in judged]
    cases += [
        f'  <testcase classname="accuracy" name={quoteattr(line.split(":")[0])}><failure>{escape(line)}</failure></testcase>'
        for line in failed
    ]
    cases += [
        f'  <testcase classname="accuracy" name={quoteattr(line.split(":")[0])}><skipped>{escape(line)}</skipped></testcase>'
        for line in skipped
    ]
    head = f'<testsuite name="accuracy" tests="{len(cases)}" failures="{len(failed)}" skipped="{len(skipped)}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>"]) + "\n"


def github_lines(failed: Sequence[str], skipped: Sequence[str]) -> str:
    """The verdict as GitHub Actions reads it."""
    lines = [
        *(f"::error title=accuracy::{line}" for line in failed),
        *(f"::notice title=accuracy::{line}" for line in skipped),
    ]
    return "".join(line + "\n" for line in lines)
