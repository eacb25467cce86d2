"""``autodeploy accuracy``: predicted against measured by group, and the gate."""

from __future__ import annotations

import io
import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from autodeploy.accuracy import Report, RunSet, compare, merge, read_runs, shipped_baseline
from autodeploy.cli import options as opt
from autodeploy.cli.output import check_report, write_report
from autodeploy.errors import InputError
from autodeploy.files.write import write_text

GATE_FAILED = 1


class Format(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


def accuracy(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Folders of CSV files with a models.yaml. Default: shipped.")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Fail (exit 1) where a group got worse than in this file.")
    ] = None,
    write_baseline: Annotated[
        Path | None, typer.Option(help="Record today's figures; the difference goes to stderr.")
    ] = None,
    format: Annotated[Format, typer.Option(help="What to print.")] = Format.table,
    output: Annotated[Path | None, typer.Option(help="Write the result here instead of to stdout.")] = None,
    report_file: opt.Report = None,
    group: Annotated[str, typer.Option(help="Only groups whose name contains this; several with commas.")] = "",
    worst: Annotated[int, typer.Option(help="Also list the N rows with the largest error (table only).", min=0)] = 0,
    by: Annotated[
        str, typer.Option(help="Also print predicted / measured by these columns, such as tp,pp (table only).")
    ] = "",
    memory: Annotated[bool, typer.Option("--memory", help="--worst and --by look at memory instead of time.")] = False,
    all_rows: Annotated[
        bool, typer.Option("--all-rows", help="--worst and --by also look at rows that no gate is over.")
    ] = False,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="Also judge the decisions: probabilities, regret, trials (a minute).")
    ] = False,
    skipped: Annotated[bool, typer.Option("--skipped", help="List every run that is not predicted, and why.")] = False,
    junit: Annotated[Path | None, typer.Option(help="The gate's verdict as JUnit XML, in this file.")] = None,
    annotations: Annotated[
        bool, typer.Option("--annotations", help="The gate's verdict as GitHub annotations, on standard error.")
    ] = False,
) -> None:
    """Predicts every published run with its own configuration and holds it against the measurement."""
    check_report(report_file)
    run_set = _select(merge([read_runs(folder) for folder in runs]) if runs else read_runs(), group)
    report = compare(run_set[0], runs=run_set[1])
    against = baseline or (None if runs or group else shipped_baseline())
    compared = against if write_baseline is None else baseline
    failed, unjudged = _failed(report, compared), _unjudged(report, compared)
    decided = _decisions(run_set, default=not runs) if decisions else None
    if decided is not None:
        failed = [*failed, *_failed_decisions(decided)]
    if report_file is not None:
        write_report(report_file, _document(report, failed, against, unjudged, decided))
    if format is Format.json:
        _emit(_json(_document(report, failed, against, unjudged, decided)), output)
    elif format is Format.csv:
        _emit(_csv(report), output)
    else:
        text = _tables(report, worst, [name for name in by.split(",") if name], memory, all_rows, skipped)
        _emit(text + _decision_text(decided), output)
    _tell(report, failed, unjudged, junit, annotations)
    _gate(report, failed if baseline else [], write_baseline)


def _select(run_set: RunSet, group: str) -> tuple[RunSet, list]:
    words = [word.strip() for word in group.split(",") if word.strip()]
    chosen = [run for run in run_set.runs if not words or any(word in run.report_group for word in words)]
    if not chosen:
        names = sorted({run.report_group for run in run_set.runs})
        raise InputError("--group", group, f"part of one of {', '.join(names)}")
    return run_set, chosen


def _failed(report: Report, baseline: Path | None) -> list[str]:
    """What got worse than in the baseline; without --baseline the shipped runs are held against the shipped one."""
    from autodeploy.accuracy import gate

    return gate.violations(report, gate.read_baseline(baseline)) if baseline else []


def _unjudged(report: Report, baseline: Path | None) -> list[str]:
    from autodeploy.accuracy import gate

    return gate.unjudged(report, gate.read_baseline(baseline)) if baseline else []


def _tell(report: Report, failed: list[str], unjudged: list[str], junit: Path | None, annotations: bool) -> None:
    """The verdict for people and for CI systems."""
    from autodeploy.accuracy import gate

    for line in unjudged:
        print(f"gate: {line}", file=sys.stderr)
    if annotations:
        sys.stderr.write(gate.github_lines(failed, unjudged))
    if junit is not None:
        judged = sorted({result.run.report_group for result in report.results if result.run.gated})
        write_text(junit, gate.junit(judged, failed, unjudged), "--junit")


def _gate(report: Report, found: list[str], write: Path | None) -> None:
    """Writes a baseline where asked, and fails where --baseline was given and something got worse."""
    from autodeploy.accuracy import gate

    if write:
        lines = gate.write_baseline(write, report)
        print(f"wrote {write}: " + (f"{len(lines)} figures changed" if lines else "nothing changed"), file=sys.stderr)
        for line in lines:
            print(f"  {line}", file=sys.stderr)
    for line in found:
        print(f"gate: {line}", file=sys.stderr)
    if found:
        raise typer.Exit(GATE_FAILED)


def _decisions(run_set: tuple[RunSet, list], default: bool) -> dict[str, Any]:
    """The measured problems as a benchmark of decisions; of runs of one's own the shipped ones are fitted to as well."""
    from autodeploy.decide.decisions import decisions_document
    from autodeploy.decide.problems import judged_runs

    chosen = judged_runs(RunSet(tuple(run_set[1]), run_set[0].models))
    return decisions_document(
        chosen, () if default and len(run_set[1]) == len(run_set[0].runs) else judged_runs(read_runs())
    )


def _failed_decisions(decided: dict[str, Any]) -> list[str]:
    from autodeploy.decide.gate import decision_violations

    return decision_violations(decided)


def _decision_text(decided: dict[str, Any] | None) -> str:
    if decided is None:
        return ""
    from autodeploy.decide.render import decision_lines

    return "\n".join(decision_lines(decided)) + "\n"


def _document(
    report: Report, failed: list[str], baseline: Path | None, unjudged: list[str], decided: dict[str, Any] | None
) -> dict[str, Any]:
    from autodeploy.accuracy.document import report_document

    document = report_document(report, failed, baseline.name if baseline else None, unjudged)
    if decided is not None:
        document["decisions"] = decided
    return document


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _csv(report: Report) -> str:
    from autodeploy.accuracy.document import run_row
    from autodeploy.report.csv_text import entries_csv

    rows = [run_row(result) for result in report.results]
    flat = [{k: v for k, v in row.items() if k != "time_s"} | {"assumed": "; ".join(row["assumed"])} for row in rows]
    return entries_csv(flat, {})


def _tables(report: Report, worst: int, by: list[str], memory: bool, all_rows: bool, skipped: bool) -> str:
    from rich.console import Console

    from autodeploy.accuracy import render, residuals

    looked_at = list(report.results) if all_rows else report.select(lambda result: result.run.gated)
    tables = render.report_tables(report)
    if by:
        tables.append(render.residual_table(residuals.residuals(looked_at, by, memory=memory), by, memory))
    if worst:
        tables.append(render.worst_table(residuals.worst(looked_at, worst, memory=memory), memory))
    if skipped:
        tables.append(render.skipped_table(report.results))
    stream = io.StringIO()
    console = Console(file=stream, width=_width(), highlight=False)
    for table in tables:
        console.print(table)
    return stream.getvalue() + render.summary(report) + "\n"


def _width() -> int:
    """A pipe gets lines that nothing wraps."""
    return os.get_terminal_size().columns if sys.stdout.isatty() else 200


def _emit(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    write_text(output, text)
